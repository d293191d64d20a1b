"""A DeepSpeed config file's bytes -> a mapping, read as DeepSpeed reads it (hjson: comments, trailing commas, words without
quotes), but strictly where leniency would hide a mistake: duplicate keys, NaN, templates, YAML."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from zerocfg.diagnostics import ConfigProblems, Diagnostic

LARGEST_BYTES = 2**20
"""A config is a few kilobytes; a larger file is a mistake (a checkpoint, a log)."""
MOST_VALUES = 2000
"""DeepSpeed has about 450 keys."""
DEEPEST = 32
"""DeepSpeed's own keys go 8 deep."""

READ_CODES: dict[str, str] = {
    "ZC910": "The file is empty, too large, not a file, or not UTF-8 text without a byte order mark.",
    "ZC911": "The file is not JSON, nor the lenient form that DeepSpeed reads.",
    "ZC912": "A key stands twice in one object.",
    "ZC913": "NaN, Infinity, or a number that no machine number holds.",
    "ZC914": "The file nests too deeply, or holds more values than any config.",
    "ZC915": "The file is a template: a value still has to be filled in.",
}

Pairs = list[tuple[str, Any]]


def parse(data: bytes, name: str) -> dict[str, Any]:
    """Read `data`; `name` stands in messages. Raises ConfigProblems with one problem and its line and column."""
    return _Reader(name, _decode(data, name)).read()


def file_problem(name: str, message: str, hint: str, text: str = "", position: int = 0, code: str = "ZC910") -> ConfigProblems:
    """One problem of the file at a position of `text`."""
    line = text.count("\n", 0, position) + 1
    column = position - (text.rfind("\n", 0, position) + 1) + 1
    return ConfigProblems([Diagnostic(code=code, path=name, message=f"{name}:{line}:{column}: {message}", hint=hint)])


def _decode(data: bytes, name: str) -> str:
    if len(data) > LARGEST_BYTES:
        raise file_problem(name, f"more than {LARGEST_BYTES} bytes: too large for a config", "the DeepSpeed JSON itself")
    if data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        raise file_problem(name, "the file starts with a byte order mark", "save it as UTF-8 without BOM")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8", "replace")
        raise file_problem(name, f"byte {data[error.start]:#04x} is not UTF-8", "save it as UTF-8", before, len(before)) from None
    if not text.strip():
        raise file_problem(name, "the file is empty", "{} is the smallest config")
    return text


_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|#[^\n]*|//[^\n]*|/\*.*?\*/|[{}\[\],:]|-?Infinity\b|NaN\b|-?[0-9][0-9.eE+-]*', re.S)
_COMMENT = ("#", "//", "/*")
_PLACEHOLDER = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+|<.*>|\{\{.*\}\}|\$\{?\w.*|%.*%|\?\?\?|\.\.\.")
"""A word without quotes that looks like a place to fill in."""


class _Duplicate(Exception):
    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class _Unwritable(Exception):
    """A number that JSON can hold and nothing else can."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class _Reader:
    def __init__(self, name: str, text: str) -> None:
        self.name, self.text = name, text

    def read(self) -> dict[str, Any]:
        self._size()
        try:
            value = json.loads(self.text, object_pairs_hook=_once, parse_constant=_refuse(), parse_float=_finite, parse_int=_whole)
        except json.JSONDecodeError as strict:
            value = self._lenient(strict)
        except _Duplicate as twice:
            self._twice(twice.key)
        except _Unwritable as number:
            self._fail("ZC913", self._place(number.text), f"{number.text[:40]} is no number to train with", "a finite number")
        if not isinstance(value, dict):
            kinds = {"list": "a list", "str": "a text", "bool": "a truth value", "NoneType": "null"}
            self._fail("ZC911", 0, f"the file holds {kinds.get(type(value).__name__, 'a number')}, not an object", "an object in { }")
        for word in _texts(value):
            if any("\ud800" <= letter <= "\udfff" for letter in word):
                self._fail("ZC911", self.text.find("\\ud"), "half of a surrogate pair is no text", "a whole character")
            if word == "???":
                self._fail("ZC915", max(0, self.text.find("???")), "??? is a value still to be filled in", "fill in the template first")
        return value

    def _fail(self, code: str, position: int, message: str, hint: str) -> NoReturn:
        raise file_problem(self.name, message, hint, self.text, max(0, position), code)

    def _tokens(self) -> Iterator[tuple[str, int]]:
        for match in _TOKEN.finditer(self.text):
            if not match.group().startswith(_COMMENT):
                yield match.group(), match.start()

    def _place(self, wanted: str) -> int:
        return next((position for token, position in self._tokens() if token == wanted), 0)

    def _size(self) -> None:
        depth = values = 0
        for token, position in self._tokens():
            values += token == ":"
            if values > MOST_VALUES:
                self._fail("ZC914", position, f"more than {MOST_VALUES} keys", "the DeepSpeed JSON itself")
            depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(token, 0)
            if depth > DEEPEST:
                self._fail("ZC914", position, f"more than {DEEPEST} levels of nesting", "the DeepSpeed JSON itself")

    def _twice(self, key: str) -> NoReturn:
        positions = [position for found, position in self._repeated() if found == key]
        # a key without quotes: at its second mention
        first = self.text.find(key)
        position = positions[0] if positions else max(first, self.text.find(key, first + 1))
        self._fail("ZC912", position, f"the key {key!r} stands twice in one object", "keep one of them")

    def _repeated(self) -> Iterator[tuple[str, int]]:
        """Quoted keys that stand a second time in their object, with the place of the second."""
        stack: list[set[str]] = []
        last: tuple[str, int] | None = None
        for token, position in self._tokens():
            if token in "{[":
                stack.append(set())
            elif token in "}]" and stack:
                stack.pop()
            elif token == ":" and last is not None and stack:
                key = str(json.loads(last[0]))
                if key in stack[-1]:
                    yield key, last[1]
                stack[-1].add(key)
            last = (token, position) if token.startswith('"') else None

    def _lenient(self, strict: json.JSONDecodeError) -> Any:
        import hjson

        bare = re.sub(r"\s+|#[^\n]*(\n|$)|//[^\n]*(\n|$)|/\*.*?\*/", "", self.text, flags=re.S)
        if not bare.startswith("{"):
            yaml = re.match(r"\s*((#[^\n]*|---[^\n]*)\n\s*)*[A-Za-z_][\w.]*\s*:", self.text)
            looks = "this looks like YAML" if yaml else "an object starts with {"
            self._fail("ZC911", strict.pos, f"not JSON: {looks}", "the DeepSpeed JSON itself")
        try:
            value = hjson.loads(self.text, object_pairs_hook=_once)
        except _Duplicate as twice:
            self._twice(twice.key)
        except hjson.HjsonDecodeError as error:
            # with a comment in the text, JSON's own reader stops there, not at the mistake
            comments = any(match.group().startswith(_COMMENT) for match in _TOKEN.finditer(self.text))
            position, said = (error.pos, error.msg) if comments else (strict.pos, strict.msg)
            self._fail("ZC911", position, f"not JSON: {said}", "the DeepSpeed JSON itself, or mend this line")
        except IndexError:  # hjson reads past the end of a comment or text that is never closed
            self._fail("ZC911", strict.pos, "not JSON: a comment or text that begins here is never closed", "close it, or take it out")
        except ValueError:  # Python refuses to read thousands of digits
            self._fail("ZC913", strict.pos, "a number with thousands of digits", "a finite number")
        for number in _numbers(value):
            if isinstance(number, float) and not math.isfinite(number):
                self._fail("ZC913", strict.pos, f"{number} is no number to train with", "a finite number")
        for word, position in self._without_quotes(value):
            if word in ("NaN", "Infinity", "-Infinity"):
                self._fail("ZC913", position, f"{word} is no number to train with", "a finite number")
            if word.endswith(",") or _PLACEHOLDER.fullmatch(word):
                self._fail("ZC915", position, f"{word!r} without quotes is a place still to be filled in", "fill in the template first")
        return value

    def _without_quotes(self, value: Any) -> Iterator[tuple[str, int]]:
        """Texts that stand without quotes: whatever is left on their line."""
        for word in _texts(value):
            found = re.search(r":[ \t]*(" + re.escape(word) + r")[ \t]*($|\n|\r)", self.text) if word else None
            if found:
                yield word, found.start(1)


def _once(pairs: Pairs) -> dict[str, Any]:
    read: dict[str, Any] = {}
    for key, value in pairs:
        if key in read:
            raise _Duplicate(key)
        read[key] = value
    return read


def _refuse() -> Callable[[str], Any]:
    def refuse(text: str) -> NoReturn:
        raise _Unwritable(text)

    return refuse


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _Unwritable(text)
    return number


def _whole(text: str) -> int:
    if len(text) > 300:  # beyond any float, and Python refuses to read thousands of digits
        raise _Unwritable(text)
    return int(text)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(key)
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def _numbers(value: Any) -> Iterator[int | float]:
    if isinstance(value, (int, float)):
        yield value
    elif isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _numbers(item)
