"""Values that are read as something else than they look (ZC115).

YAML 1.1 reads on, off, yes and no as truth values, 012 as octal 10 and 1:30 as the sexagesimal number 90. Hydra's command
line reads the same as text, which a typed field may then convert: float("012") is 12. Both are refused where the two readings
differ from what is written, so that a value means the same in a file and on the command line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from zerocfg.compose.kinds import Kind, kind_at
from zerocfg.compose.origins import shown
from zerocfg.diagnostics import Diagnostic
from zerocfg.hidden import secret_path

_TRUTH_WORDS = {"on": True, "off": False, "yes": True, "no": False, "y": True, "n": False}
_OCTAL = re.compile(r"[-+]?0[0-7_]+")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9_]+")
_BASE = re.compile(r"[-+]?0(?:x[0-9a-fA-F_]+|b[01_]+)")
_SEXAGESIMAL = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")
_NUMBER = re.compile(r"[-+]?(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?")


def in_file(path: str, text: str, where: str) -> Diagnostic | None:
    """A plain (unquoted) scalar of a YAML file. where: file:line."""
    kind = kind_at(path)
    if kind is None:
        return None
    name = path.rpartition(".")[2]
    if (read := _yaml_reading(text, kind)) is None:
        return None
    became, write = read
    return Diagnostic(
        code="ZC115",
        path=path,
        message=f"{path}: {text} is {became}" + ("" if became.startswith("a number,") else " to YAML"),
        hint=write if name.endswith("]") else f"{name}: {write}",
        decided_by=where,
    )


def on_command_line(override: str) -> Diagnostic | None:
    """One override as typed, KEY=VALUE with an optional + or ++."""
    key, equals, raw = override.partition("=")
    path, raw = key.lstrip("+").strip(), raw.strip()
    kind = kind_at(path)
    if kind is None or not equals or raw[:1] in ("'", '"', "{", "$"):
        return None
    if raw[:1] == "[":
        found = [hit for item in _items(raw) if (hit := _line_reading(item, Kind(kind.item or kind.name)))]
    else:
        hit = _line_reading(raw, kind)
        found = [hit] if hit else []
    if not found:
        return None
    became, write = ("not the text that it looks", "'\"...\"'") if secret_path(path) else found[0]
    return Diagnostic(
        code="ZC115",
        path=path,
        message=f"{shown(f'{path}={raw}')} is {became}",
        hint=f"{key}={write}" if raw[:1] != "[" else f"{write} in the list",
        decided_by=f"command line: {shown(override)}",
    )


def _yaml_reading(text: str, kind: Kind) -> tuple[str, str] | None:
    """(what YAML makes of it, what to write instead); None when it is what it looks."""
    word = text.lower()
    if word in _TRUTH_WORDS:
        truth = str(_TRUTH_WORDS[word]).lower()
        if kind.name == "truth":
            return None
        if kind.name == "free":
            return f"the truth value {truth}", f'{truth}, or "{text}" for the word'
        suggestion = _for_choice(word, kind) or f'"{text}"'
        return f"the truth value {truth}", suggestion if kind.name in ("text", "env", "choice") else kind.wanted
    if word in ("true", "false"):
        return ("a truth value", f'"{text}"') if kind.name == "text" else None
    if kind.name == "truth":
        return _number_as_truth(text)
    textual = kind.name in ("text", "env")
    if _OCTAL.fullmatch(text):
        return f"the octal number {int(text.replace('_', ''), 8)}", f'"{text}"' if textual else _decimal(text)
    if _LEADING_ZERO.fullmatch(text):
        return None if textual else ("text, because of its leading zero", _decimal(text))
    if _SEXAGESIMAL.fullmatch(text) and (seconds := _sexagesimal(text)) is not None:
        return f"the number {seconds:g} (base 60)", f'"{text}"' if textual or kind.name == "free" else f"{seconds:g}"
    if textual and _BASE.fullmatch(text):
        return f"the number {int(text.replace('_', ''), 0)}", f'"{text}"'
    if textual and (number := _number(text)) is not None and number != text:
        return f"the number {number}", f'"{text}"'
    if text == "None" and kind.optional:
        return "the text None, not null", "null"
    return None


def _line_reading(text: str, kind: Kind) -> tuple[str, str] | None:
    """The same for Hydra's override grammar, where only true and false are truth values."""
    word = text.lower()
    if word in _TRUTH_WORDS and kind.name == "free":
        truth = str(_TRUTH_WORDS[word]).lower()
        return f"text on the command line, but {truth} in YAML", f"{truth}, or '{text}' in quotes for the word"
    if word in ("true", "false"):
        return ("a truth value, not text", f"'\"{text}\"'") if kind.name == "text" else None
    if _LEADING_ZERO.fullmatch(text) and kind.name in ("number", "count", "free"):
        return "text on the command line, because of its leading zero, and octal in YAML", _decimal(text)
    if _SEXAGESIMAL.fullmatch(text) and kind.name in ("number", "count") and (seconds := _sexagesimal(text)) is not None:
        return f"text on the command line, and the base-60 number {seconds:g} in YAML", f"{seconds:g}"
    if kind.name in ("text", "env") and (number := _number(text)) is not None and number != text:
        return f"the number {number}, not text", f"'\"{text}\"'"
    if text == "None" and (kind.optional or kind.name == "free"):
        return "the text None, not null", "null"
    return _number_as_truth(text) if kind.name == "truth" else None


def _number_as_truth(text: str) -> tuple[str, str] | None:
    """OmegaConf takes every number but 0 for true."""
    if text in ("0", "1") or not any(form.fullmatch(text) for form in (_NUMBER, _BASE, _SEXAGESIMAL)):
        return None
    return "a number, and any number but 0 would be true", "true or false"


def _items(raw: str) -> Iterator[str]:
    for item in raw.strip("[]").split(","):
        if item.strip()[:1] not in ("'", '"'):
            yield item.strip()


def _for_choice(word: str, kind: Kind) -> str:
    """off and no mean none where that is a choice."""
    return "none" if "none" in kind.words and not _TRUTH_WORDS[word] else ""


def _decimal(text: str) -> str:
    sign = "-" if text.startswith("-") else ""
    return sign + (text.lstrip("+-").replace("_", "").lstrip("0") or "0")


def _sexagesimal(text: str) -> float | None:
    total = 0.0
    for part in text.lstrip("+-").replace("_", "").split(":"):
        total = total * 60 + float(part)
    return -total if text.startswith("-") else total


def _number(text: str) -> str | None:
    """A number as a text field would hold it; None for what is not a number."""
    if not _NUMBER.fullmatch(text) or _LEADING_ZERO.fullmatch(text):
        return None
    bare = text.replace("_", "")
    return str(int(bare)) if re.fullmatch(r"[-+]?[0-9]+", bare) else str(float(bare))
