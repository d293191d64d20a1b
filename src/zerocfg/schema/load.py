"""A composed config (plain containers) -> RunConfig, with every problem of type or gap reported at once."""

from __future__ import annotations

import dataclasses
import difflib
import math
import typing
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from typing import Any

from zerocfg.diagnostics import Diagnostic
from zerocfg.schema import FREE, GROUPS, PROFILE, SECTIONS, RunConfig
from zerocfg.schema.types import Count, CountOrAuto

MISSING = "???"
_COUNTS = (Count, CountOrAuto)
LARGEST = 2**63 - 1
"""JSON readers, torch and DeepSpeed's C++ keep whole numbers in 64 bits."""


@cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _strip_optional(hint: Any) -> Any:
    args = typing.get_args(hint)
    if type(None) not in args:
        return hint
    rest = tuple(a for a in args if a is not type(None))
    return rest[0] if len(rest) == 1 else typing.Union[rest]


def load(container: Mapping[str, Any]) -> tuple[RunConfig, list[Diagnostic]]:
    """Build the typed config from `container` (groups and sections by name; further keys are the app's own).

    Fields that cannot be read keep their default, so that later passes can go on and find the rest. Codes: ZC101 a value
    left open (???), ZC103 not a whole number, ZC104 not a finite number, ZC105 wrong type or unknown key, ZC106 too large.
    """
    problems: list[Diagnostic] = []
    parts: dict[str, Any] = {}
    for name, cls in {**GROUPS, **SECTIONS}.items():
        parts[name] = _section(name, cls, _mapping(name, container.get(name), problems), problems)
    for name in FREE:
        parts[name] = _free(name, _mapping(name, container.get(name), problems), problems)
    if PROFILE in container:
        parts["profile"] = container[PROFILE]
    return RunConfig(**parts), problems


def _mapping(name: str, given: Any, problems: list[Diagnostic]) -> Mapping[Any, Any]:
    """Empty where nothing is given. Where it is no mapping what stands in for it, so that what it lacks is not told, too."""
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return given
    if name in GROUPS and isinstance(given, str) and not _is_missing(given):
        hint = f"instead, in the defaults list: - override {name}: {_shown(given, str)}"
        message = f"{name}: {_shown(given, str)} is text in the group's own place: it chooses no option"
        problems.append(Diagnostic(code="ZC105", path=name, message=message, hint=hint))
    else:
        problems.append(_missing(name) if _is_missing(given) else _wrong(name, given, "a mapping"))
    return {"detect": True} if name == "hardware" else {}


def _section(name: str, cls: type, given: Mapping[str, Any], problems: list[Diagnostic]) -> Any:
    hints = _hints(cls)
    values: dict[str, Any] = {}
    for key, value in given.items():
        spelled = _shown(key, str)
        path = f"{name}.{spelled}"
        if key not in hints:
            near = difflib.get_close_matches(spelled, hints, n=1)
            problems.append(
                Diagnostic(
                    code="ZC105",
                    path=path,
                    message=f"{path} is not a key of {name}",
                    hint=f"{name}.{near[0]}" if near else f"one of {', '.join(hints)}",
                )
            )
        elif _is_missing(value):
            problems.append(_missing(path))
        elif (read := _read(path, hints[key], value, problems)) is not _UNREADABLE:
            values[key] = read
    return cls(**values)


class _Unreadable(Enum):
    token = 0


_UNREADABLE = _Unreadable.token


def _read(path: str, hint: Any, value: Any, problems: list[Diagnostic]) -> Any:
    optional = _strip_optional(hint)
    if value is None:
        if optional is not hint:
            return None
        problems.append(_wrong(path, value, "a value: this key may not be null"))
        return _UNREADABLE
    hint = optional
    if hint in _COUNTS or hint is int:
        return _count(path, value, problems, words=hint == CountOrAuto)
    if hint is float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            problems.append(_wrong(path, value, "a number"))
            return _UNREADABLE
        if (number := _as_float(value)) is None:
            problems.append(_not_finite(path, value))
            return _UNREADABLE
        return number
    if isinstance(hint, type) and issubclass(hint, Enum):
        if isinstance(value, hint):
            return value
        by_text = {str(member.value): member for member in hint} | {member.name: member for member in hint}
        if isinstance(value, str) and value in by_text:
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
    if words and isinstance(value, str) and value == "auto":
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        problems.append(_wrong(path, value, "a whole number" + (" or auto" if words else "")))
        return _UNREADABLE
    if isinstance(value, float) and not value.is_integer():
        near = f"{path}={math.floor(value)} or {math.ceil(value)}" if math.isfinite(value) else "write a whole number"
        problems.append(Diagnostic(code="ZC103", path=path, message=f"{path}={value} is not a whole number", hint=near))
        return _UNREADABLE
    if abs(value) > LARGEST:
        problems.append(_too_large(path, value))
        return _UNREADABLE
    return int(value)


def _free(path: str, node: Any, problems: list[Diagnostic]) -> Any:
    """A free mapping as a copy that can be written as JSON; what cannot is reported and left out."""
    if isinstance(node, Mapping):
        kept = {}
        for key, value in node.items():
            below = f"{path}.{_shown(key, str)}"
            if not isinstance(key, str):
                problems.append(_wrong(below, key, "a text as its key"))
            elif (read := _free(below, value, problems)) is not _UNREADABLE:
                kept[key] = read
        return kept
    if isinstance(node, (list, tuple)):
        items = [_free(f"{path}[{i}]", item, problems) for i, item in enumerate(node)]
        return [item for item in items if item is not _UNREADABLE]
    if isinstance(node, Enum):
        node = node.value
    if _is_missing(node):
        problems.append(_missing(path))
    elif node is not None and not isinstance(node, (bool, int, float, str)):
        problems.append(_wrong(path, node, "a number, a text, true, false, a list or a mapping"))
    elif isinstance(node, float) and not math.isfinite(node):
        problems.append(_not_finite(path, node))
    elif isinstance(node, int) and abs(node) > LARGEST:
        problems.append(_too_large(path, node))
    else:
        return node
    return _UNREADABLE


def _is_missing(value: object) -> bool:
    return isinstance(value, str) and value == MISSING


def _as_float(value: int | float) -> float | None:
    """None where it is not finite, or an integer beyond what a float holds."""
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _shown(value: object, text: Callable[[object], str] = repr) -> str:
    """A value for a message; Python refuses to write integers of more than some thousand digits."""
    try:
        return text(value)
    except ValueError:
        return f"a huge {type(value).__name__}"


def _not_finite(path: str, value: object) -> Diagnostic:
    return Diagnostic(code="ZC104", path=path, message=f"{path}={_shown(value)} is not a finite number", hint="write a number")


def _too_large(path: str, value: object) -> Diagnostic:
    return Diagnostic(
        code="ZC106", path=path, message=f"{path}={_shown(value)} does not fit in 64 bits", hint=f"{path}={LARGEST} at the very most"
    )


def _missing(path: str) -> Diagnostic:
    return Diagnostic(code="ZC101", path=path, message=f"{path} is left open (???)", hint=f"{path}=VALUE")


def _wrong(path: str, value: object, wanted: str) -> Diagnostic:
    return Diagnostic(
        code="ZC105", path=path, message=f"{path}={_shown(value)} is {type(value).__name__}, not {wanted}", hint=f"write {wanted}"
    )


def field_names(cls: type) -> list[str]:
    """Names of a config dataclass's fields, in order."""
    return [f.name for f in dataclasses.fields(cls)]
