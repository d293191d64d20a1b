"""zerocfg import: a DeepSpeed JSON in config groups, every key of it accounted for."""

from __future__ import annotations

import difflib
import json
import os
import shlex
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from zerocfg.cli import output
from zerocfg.confsource import conf_dir
from zerocfg.deepspeed.importer import Imported, ImportedEntry, import_config
from zerocfg.deepspeed.importer.read import LARGEST_BYTES, file_problem, parse
from zerocfg.deepspeed.importer.text import yaml_text
from zerocfg.diagnostics import ConfigProblems, Diagnostic, has_errors
from zerocfg.units import counted

_VALUES = ("--world-size", "--model", "--write")
_FLAGS = ("--force", "--json")


class WrongUsage(Exception):
    """A line that the command does not understand."""


@dataclass
class Line:
    """What stood after FILE."""

    options: dict[str, str | bool] = field(default_factory=dict)
    arguments: list[str] = field(default_factory=list)
    """The Trainer's and the launcher's."""
    script: list[str] = field(default_factory=list)
    """What followed `--`."""


def read_line(words: Sequence[str]) -> Line:
    """Options of this command may stand anywhere before `--`; everything else is an argument given beside the file."""
    line = Line()
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if word == "--":
            line.script = rest
            break
        if name in _VALUES:
            if not equals and (not rest or rest[0].startswith("--")):
                raise WrongUsage(f"{name} needs a value")
            line.options[name] = value if equals else rest.pop(0)
        elif word in _FLAGS:
            line.options[word] = True
        else:
            line.arguments.append(word)
    return line


def import_command(
    file: str,
    *,
    world_size: int | None = None,
    model: str | None = None,
    write: str | None = None,
    force: bool = False,
    as_json: bool = False,
    arguments: Sequence[str] = (),
    script: Sequence[str] = (),
) -> int:
    """Print what the file means in groups; with `write` also as an experiment file.

    as_json: stdout holds exactly {"overrides": [], "kept": {}, "entries": [{path, outcome, code, reason, value}], "world_sizes": []}; with
    an error it holds the list that `check --json` prints, and the status is 1.
    """
    try:
        config = read_file(file)
        described = model_overrides(model) if model is not None else None
        imported = import_config(config, arguments=arguments, script=script, world_size=world_size, model=described)
        target = write_experiment(imported, Path(write), source=file, force=force) if write is not None else None
    except ConfigProblems as problem:
        output.report(problem.diagnostics)
        if as_json:
            output.report_json(problem.diagnostics)
        return 1
    output.report(imported.notes)
    if as_json:
        output.product_json(imported.as_dict())
    else:
        output.product(sections(imported))
    counts = Counter(entry.outcome for entry in imported.entries)
    said = ", ".join(f"{counts[outcome]} {outcome}" for outcome in ("expressed", "kept", "migrated", "refused") if counts[outcome])
    output.say(f"{counted(len(imported.entries), 'key')}: {said}" if imported.entries else "the file holds no keys")
    if target is not None:
        output.say(f"written to {target}: python train.py +{target.parent.name}={target.stem}")
    return 1 if has_errors(imported.notes) else 0


def read_file(name: str) -> dict[str, object]:
    """Read a DeepSpeed config. Raises ConfigProblems (ZC910 to ZC915)."""
    try:
        with open(name, "rb") as stream:
            data = stream.read(LARGEST_BYTES + 1)
    except (OSError, ValueError) as error:
        raise file_problem(name, f"cannot be read: {getattr(error, 'strerror', None) or error}", "the path of a DeepSpeed JSON") from None
    return parse(data, name)


def model_overrides(asked: str) -> dict[str, str]:
    """--model: an option of the group, or the path of a Hugging Face config.json or its folder. Raises ConfigProblems (ZC930)."""
    if os.sep in asked or asked.endswith(".json") or Path(asked).is_dir():
        return {"model": "none", "model.hf_config": asked}
    options = sorted({path.stem for folder in (conf_dir(), Path("conf")) for path in (folder / "model").glob("*.yaml")})
    if asked not in options:
        near = difflib.get_close_matches(asked, options, n=1)
        message = f"--model {asked} is neither an option of the group model nor a path"
        hint = f"--model {near[0]}" if near else "--model path/config.json"
        raise ConfigProblems([Diagnostic(code="ZC930", message=message, detail=(f"options: {', '.join(options)}",), hint=hint)])
    return {"model": asked}


def sections(imported: Imported) -> str:
    """The overrides ready to paste, what is left under deepspeed, the report, the world sizes."""
    parts = {
        "overrides": "\n".join(shlex.quote(override) for override in imported.overrides),
        "deepspeed": json.dumps(imported.kept, indent=2) if imported.kept else "nothing is left: the groups say it all",
        "report": "\n".join(table(imported.entries)),
        "world sizes": worlds(imported),
    }
    return "\n\n".join(f"[{name}]\n{text}" for name, text in parts.items())


def table(entries: Sequence[ImportedEntry]) -> Iterator[str]:
    """One line a key: outcome, code, path = value, reason."""
    shown = [f"{entry.path} = {_short(json.dumps(entry.value))}" for entry in entries]
    width = min(64, max(map(len, shown), default=0))
    for entry, text in zip(entries, shown, strict=True):
        yield f"{entry.outcome:<9}  {entry.code:<5}  {text:<{width}}  {entry.reason}"


def _short(text: str, width: int = 40) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


def worlds(imported: Imported) -> str:
    if imported.any_world_size and len(imported.world_sizes) > 1:
        return "any: no global batch size is written, it follows from micro x accumulation x ranks"
    return ", ".join(map(str, imported.world_sizes)) or "none"


def write_experiment(imported: Imported, path: Path, *, source: str, force: bool) -> Path:
    """Write an experiment file, whole or not at all. Raises ConfigProblems (ZC931) where it would overwrite another without `force`."""
    if path.suffix != ".yaml" or path.parent == Path("."):
        raise _refused(f"--write {path}: Hydra finds an option as GROUP/NAME.yaml in a config folder", "--write conf/experiment/NAME.yaml")
    text = experiment(imported, source)
    try:
        if os.path.lexists(path) and not force and (path.is_symlink() or not path.is_file() or path.read_bytes() != text.encode()):
            raise _refused(f"{path} holds something else", "--force, or another name")
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, prefix=".zerocfg-", delete=False) as draft:
            draft.write(text)
        os.chmod(draft.name, 0o644)
        os.replace(draft.name, path)
    except OSError as error:
        raise _refused(f"--write {path}: {error.strerror or error}", "a folder that you may write") from None
    return path


def experiment(imported: Imported, source: str) -> str:
    """A config that is laid over the groups: +experiment=NAME on the command line."""
    lines = ["# @package _global_", f"# From {Path(source).name.encode('ascii', 'replace').decode()}, by zerocfg import.", "defaults:"]
    lines += [f"  - override /{group}: {option}" for group, option in imported.groups.items()]
    tree: dict[str, object] = {}
    for path, value in imported.values.items():
        section, _, name = path.partition(".")
        node = tree.setdefault(section, {})
        assert isinstance(node, dict)
        node[name] = value
    if imported.kept:
        tree["deepspeed"] = imported.kept
    body = "".join("\n" + yaml_text({section: value}) for section, value in tree.items())
    return "\n".join(lines) + "\n" + body


def _refused(message: str, hint: str) -> ConfigProblems:
    return ConfigProblems([Diagnostic(code="ZC931", message=message, hint=hint)])
