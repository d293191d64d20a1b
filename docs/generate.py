"""Write docs/reference/*.md from the code. `python docs/generate.py --check` fails where a page is out of date."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

import zerocfg
from zerocfg.launch.options import LocalOptions
from zerocfg.launch.slurm_options import SlurmOptions
from zerocfg.schema import GROUPS, SECTIONS
from zerocfg.schema.describe import describe

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "docs" / "reference"
NOTICE = "<!-- Written by docs/generate.py; change the code, then run `make docs`. -->\n"


def code_tables() -> dict[str, str]:
    """Every diagnostic code of every module, with its line."""
    found: dict[str, str] = {}
    for module in pkgutil.walk_packages(zerocfg.__path__, "zerocfg."):
        if module.name.endswith("__main__"):
            continue
        for name, table in vars(importlib.import_module(module.name)).items():
            if name.endswith("CODES") and isinstance(table, dict):
                found |= table
    return dict(sorted(found.items()))


def diagnostics_page() -> str:
    families = {
        "1": "Config and resolve",
        "2": "Batch and topology",
        "3": "ZeRO and offload",
        "4": "Precision",
        "5": "Memory",
        "6": "DeepSpeed keys",
        "7": "Launch and SLURM",
        "8": "Environment",
        "9": "Import of an existing JSON",
    }
    lines = [NOTICE, "# Diagnostics", "", "`zerocfg check` prints them with the path, the arithmetic and what to write instead.", ""]
    family = ""
    for code, text in code_tables().items():
        if code[2] != family:
            family = code[2]
            lines += ["", f"## ZC{family}xx: {families[family]}", "", "| code | meaning |", "| --- | --- |"]
        lines.append(f"| {code} | {text} |")
    return "\n".join(lines) + "\n"


def _value(value: object) -> str:
    value = getattr(value, "value", value)
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else (f"`{value}`" if value != "" else "")


def _fields(cls: type) -> Iterator[str]:
    yield "| field | type | default | meaning |"
    yield "| --- | --- | --- | --- |"
    for field in describe(cls):
        if field.name != "name":
            kind, doc = field.type_text.replace("|", chr(92) + "|"), " ".join(field.doc.split())
            yield f"| `{field.name}` | {kind} | {_value(field.default)} | {doc} |"


def groups_page() -> str:
    lines = [NOTICE, "# Config groups", "", "`group=option` picks an option, `group.field=value` changes one value.", ""]
    for group, cls in GROUPS.items():
        lines += [f"## {group}", "", " ".join((cls.__doc__ or "").split()), "", "| option | sets |", "| --- | --- |"]
        for path in sorted((ROOT / "conf" / group).glob("*.yaml")):
            content = yaml.safe_load(path.read_text()) or {}
            shown = ", ".join(f"{k}: {v}" for k, v in content.items() if k not in ("name", "defaults"))
            lines.append(f"| `{group}={path.stem}` | {shown.replace('|', chr(92) + '|')} |")
        lines += ["", *_fields(cls), ""]
    for section, cls in SECTIONS.items():
        lines += [f"## {section}", "", " ".join((cls.__doc__ or "").split()), "", *_fields(cls), ""]
    return "\n".join(lines)


def launchers_page() -> str:
    lines = [NOTICE, "# Launchers", "", "`hydra/launcher=NAME` picks one; its fields are `hydra.launcher.FIELD`.", ""]
    for name, cls in (("zerocfg_local", LocalOptions), ("zerocfg_slurm", SlurmOptions)):
        about = " ".join((cls.__doc__ or "").split()).partition(": ")[2]
        lines += [f"## {name}", "", about[:1].upper() + about[1:], "", "| field | type | default | meaning |", "| --- | --- | --- | --- |"]
        # a field's docstring stands in the class that defines it
        fields = {field.name: field for base in reversed(cls.__mro__[:-1]) for field in describe(base) if field.doc}
        for field in fields.values():
            kind = field.type_text.replace("|", "\\|").replace("Dict", "mapping")
            lines.append(f"| `{field.name}` | {kind} | {_value(field.default)} | {' '.join(field.doc.split())} |")
        lines.append("")
    return "\n".join(lines)


PAGES = {"diagnostics.md": diagnostics_page, "groups.md": groups_page, "launchers.md": launchers_page}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = []
    for name, page in PAGES.items():
        path, text = REFERENCE / name, page()
        if check and (not path.is_file() or path.read_text() != text):
            stale.append(str(path.relative_to(ROOT)))
        elif not check:
            path.write_text(text)
    if stale:
        print(f"out of date: {', '.join(stale)}; run `make docs`", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
