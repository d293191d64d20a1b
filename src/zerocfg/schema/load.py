"""A composed config (plain containers) -> RunConfig, with every problem of type or gap reported at once."""

from __future__ import annotations

import dataclasses
import difflib
import math
import typing
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import lru_cache
from typing import Any

from zerocfg.diagnostics import Diagnostic
from zerocfg.schema import FREE, GROUPS, SECTIONS, RunConfig
from zerocfg.schema.types import Count, CountOrAuto

MISSING = "???"
_COUNTS = (Count, CountOrAuto)


@lru_cache(maxsize=None)
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _strip_optional(hint: Any) -> Any:
    args = typing.get_args(hint)
    if type(None) not in args:
        return hint
    rest = tuple(a for a in args if a is not type(None))
    return rest[0] if len(rest) == 1 else typing.Union[rest]  # noqa: UP007


def load(container: Mapping[str, Any]) -> tuple[RunConfig, list[Diagnostic]]:
    """Build the typed config from `container` (groups and sections by name; further keys are the app's own).

    Fields that cannot be read keep their default, so that later passes can go on and find the rest. Codes: ZC101 a value
    left open (???), ZC103 not a whole number, ZC104 not a finite number, ZC105 wrong type or unknown key.
    """
    problems: list[Diagnostic] = []
    parts: dict[str, Any] = {}
    for name, cls in {**GROUPS, **SECTIONS}.items():
        given = container.get(name)
        if given is None:
            given = {}
        if given == MISSING or not isinstance(given, Mapping):
            problems.append(_missing(name) if given == MISSING else _wrong(name, given, "a mapping"))
            given = {}
        parts[name] = _section(name, cls, given, problems)
    for name in FREE:
        given = container.get(name) or {}
        if not isinstance(given, Mapping):
            problems.append(_wrong(name, given, "a mapping"))
            given = {}
        problems += [_missing(path) for path, value in _leaves(name, given) if value == MISSING]
        parts[name] = {k: v for k, v in given.items() if v != MISSING}
    return RunConfig(**parts), problems


def _section(name: str, cls: type, given: Mapping[str, Any], problems: list[Diagnostic]) -> Any:
    hints = _hints(cls)
    values: dict[str, Any] = {}
    for key, value in given.items():
        path = f"{name}.{key}"
        if key not in hints:
            near = difflib.get_close_matches(str(key), hints, n=1)
            problems.append(
                Diagnostic(
                    code="ZC105",
                    path=path,
                    message=f"{path} is not a key of {name}",
                    hint=f"{name}.{near[0]}" if near else f"one of {', '.join(hints)}",
                )
            )
        elif value == MISSING:
            problems.append(_missing(path))
        elif (read := _read(path, hints[key], value, problems)) is not _UNREADABLE:
            values[key] = read
    return cls(**values)


class _Unreadable(Enum):
    token = 0


_UNREADABLE = _Unreadable.token


def _read(path: str, hint: Any, value: Any, problems: list[Diagnostic]) -> Any:
    if value is None:
        return None
    hint = _strip_optional(hint)
    if hint in _COUNTS or hint is int:
        return _count(path, value, problems, words=hint == CountOrAuto)
    if hint is float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            problems.append(_wrong(path, value, "a number"))
            return _UNREADABLE
        if not math.isfinite(value):
            problems.append(Diagnostic(code="ZC104", path=path, message=f"{path}={value} is not a finite number", hint="write a number"))
            return _UNREADABLE
        return float(value)
    if isinstance(hint, type) and issubclass(hint, Enum):
        if isinstance(value, hint):
            return value
        by_text = {str(member.value): member for member in hint} | {member.name: member for member in hint}
        if value in by_text:
            return by_text[value]
        problems.append(_wrong(path, value, "one of " + ", ".join(str(m.value) for m in hint)))
        return _UNREADABLE
    if typing.get_origin(hint) is list:
        if not isinstance(value, list):
            problems.append(_wrong(path, value, "a list"))
            return _UNREADABLE
        (inner,) = typing.get_args(hint)
        items = [_read(f"{path}[{i}]", inner, item, problems) for i, item in enumerate(value)]
        return _UNREADABLE if _UNREADABLE in items else items
    if isinstance(hint, type) and not isinstance(value, hint):
        problems.append(_wrong(path, value, {str: "text", bool: "true or false"}.get(hint, hint.__name__)))
        return _UNREADABLE
    return value


def _count(path: str, value: Any, problems: list[Diagnostic], *, words: bool) -> Any:
    if words and value == "auto":
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        problems.append(_wrong(path, value, "a whole number" + (" or auto" if words else "")))
        return _UNREADABLE
    if not math.isfinite(value) or value != int(value):
        near = "" if not math.isfinite(value) else f"{path}={math.floor(value)} or {math.ceil(value)}"
        problems.append(
            Diagnostic(code="ZC103", path=path, message=f"{path}={value} is not a whole number", hint=near or "write a whole number")
        )
        return _UNREADABLE
    return int(value)


def _leaves(prefix: str, node: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield from _leaves(f"{prefix}.{key}", value)
    elif isinstance(node, list):
        for i, value in enumerate(node):
            yield from _leaves(f"{prefix}[{i}]", value)
    else:
        yield prefix, node


def _missing(path: str) -> Diagnostic:
    return Diagnostic(code="ZC101", path=path, message=f"{path} is left open (???)", hint=f"{path}=VALUE")


def _wrong(path: str, value: object, wanted: str) -> Diagnostic:
    return Diagnostic(code="ZC105", path=path, message=f"{path}={value!r} is {type(value).__name__}, not {wanted}", hint=f"write {wanted}")


def field_names(cls: type) -> list[str]:
    """Names of a config dataclass's fields, in order."""
    return [f.name for f in dataclasses.fields(cls)]
