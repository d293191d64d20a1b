"""A DeepSpeed config file's bytes -> a mapping, read as DeepSpeed reads it (hjson: comments, trailing commas), but strictly
where leniency would hide a mistake: duplicate keys, NaN, templates, YAML."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from zerocfg.diagnostics import ConfigProblems, Diagnostic

LARGEST_BYTES = 4 * 2**20
"""A config is a few kilobytes; a larger file is a mistake (a checkpoint, a log)."""
DEEPEST = 32
"""DeepSpeed's own keys go 6 deep."""

READ_CODES: dict[str, str] = {
    "ZC910": "The file is empty, too large, or not UTF-8 text.",
    "ZC911": "The file is not JSON, nor the lenient form that DeepSpeed reads.",
    "ZC912": "A key stands twice in one object.",
    "ZC913": "NaN or Infinity.",
    "ZC914": "The file nests too deeply.",
    "ZC915": "The file is a template: a value still has to be filled in.",
}


def parse(data: bytes, name: str) -> dict[str, Any]:
    """Read `data`; `name` stands in messages. Raises ConfigProblems with one problem and its place."""
    text = _decode(data, name)
    _reject_depth(text, name)
    for key, position in duplicate_keys(text):
        raise _problem("ZC912", name, text, position, f"the key {key!r} stands twice in one object", "keep one of them")
    try:
        value = json.loads(text, parse_constant=_Constant)
    except json.JSONDecodeError as strict:
        value = _lenient(text, name, strict)
    for constant in _constants(value):
        position = text.find(constant.text)
        raise _problem("ZC913", name, text, position, f"{constant.text} is not a number of JSON", "write a number")
    if not isinstance(value, dict):
        raise _problem("ZC911", name, text, 0, f"the file holds a {type(value).__name__}, not an object", "start with {")
    return value


class _Constant:
    """Stands for NaN, Infinity, -Infinity until its place is known."""

    def __init__(self, text: str) -> None:
        self.text = text


def _constants(value: Any) -> Iterator[_Constant]:
    if isinstance(value, _Constant):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _constants(item)
    elif isinstance(value, list):
        for item in value:
            yield from _constants(item)


def _decode(data: bytes, name: str) -> str:
    if len(data) > LARGEST_BYTES:
        raise _problem(
            "ZC910", name, "", 0, f"{len(data)} bytes are too many for a config (at most {LARGEST_BYTES})", "give the DeepSpeed JSON"
        )
    if data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        raise _problem("ZC910", name, "", 0, "the file starts with a byte order mark", "save it as UTF-8 without BOM")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8", "replace")
        raise _problem("ZC910", name, before, len(before), f"byte {data[error.start]:#04x} is not UTF-8", "save it as UTF-8") from None
    if not text.strip():
        raise _problem("ZC910", name, text, 0, "the file is empty", "{} is the smallest config")
    return text


_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|#[^\n]*|//[^\n]*|/\*.*?\*/|[{}\[\],:]', re.S)


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    for match in _TOKEN.finditer(text):
        if not match.group().startswith(("#", "//", "/*")):
            yield match.group(), match.start()


def duplicate_keys(text: str) -> Iterator[tuple[str, int]]:
    """Quoted keys that stand a second time in their object, with the position of the second."""
    stack: list[set[str]] = []
    last: tuple[str, int] | None = None
    for token, position in _tokens(text):
        if token == "{" or token == "[":
            stack.append(set())
        elif token in "}]" and stack:
            stack.pop()
        elif token == ":" and last is not None and stack:
            key = last[0][1:-1]
            if key in stack[-1]:
                yield key, last[1]
            stack[-1].add(key)
        last = (token, position) if token.startswith('"') else None


def _reject_depth(text: str, name: str) -> None:
    depth = 0
    for token, position in _tokens(text):
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(token, 0)
        if depth > DEEPEST:
            raise _problem("ZC914", name, text, position, f"more than {DEEPEST} levels of nesting", "give the DeepSpeed JSON")


def _lenient(text: str, name: str, strict: json.JSONDecodeError) -> Any:
    import hjson

    first = re.sub(r"\s+|#[^\n]*\n|//[^\n]*\n|/\*.*?\*/", "", text, flags=re.S)[:1]
    if first != "{":
        looks = (
            "this looks like YAML" if re.match(r"\s*(#[^\n]*\n\s*|---\s*\n\s*)*[A-Za-z_][\w.]*\s*:", text) else "an object starts with {"
        )
        raise _problem("ZC911", name, text, strict.pos, f"not JSON: {looks}", "give the DeepSpeed JSON") from None
    try:
        value = json.loads(json.dumps(hjson.loads(text)))
    except hjson.HjsonDecodeError as error:
        raise _problem("ZC911", name, text, error.pos, f"not JSON: {error.msg}", "see the line named") from None
    for word in _unquoted(value, text):
        raise _problem(
            "ZC915", name, text, strict.pos, f"{word!r} stands without quotes: a place still to be filled in", "fill in the template first"
        )
    return value


def _unquoted(value: Any, text: str) -> Iterator[str]:
    """Text values that stand without quotes: hjson takes whatever is left on the line for text."""
    if isinstance(value, str):
        if json.dumps(value) not in text and f'"{value}"' not in text and f"'{value}'" not in text:
            yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _unquoted(item, text)
    elif isinstance(value, list):
        for item in value:
            yield from _unquoted(item, text)


def _problem(code: str, name: str, text: str, position: int, message: str, hint: str) -> ConfigProblems:
    line = text.count("\n", 0, position) + 1
    column = position - (text.rfind("\n", 0, position) + 1) + 1
    return ConfigProblems([Diagnostic(code=code, path=name, message=f"{name}:{line}:{column}: {message}", hint=hint)])
