"""Data that was written to a file by its type and is read back: where it is of another type now, because the file was damaged."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any

_NAMES: dict[Any, str] = {int: "whole number", float: "number", bool: "truth value", str: "text", types.NoneType: "null"}


def misfit(hint: Any, value: Any, path: str = "", *, whole: bool = False) -> str:
    """The first place in a value out of JSON that is not as its type says, "plan.zero.stage is no whole number"; empty: all is well.

    hint: a dataclass, a TypedDict, or what their fields are of. Names that it does not know may be there: of a later release. whole:
    none that it knows may be missing. path: of the value, for the words.
    """
    if hint in (Any, object):
        return ""
    kind, options = typing.get_origin(hint) or hint, typing.get_args(hint)
    if kind is types.UnionType:
        found = [misfit(option, value, path, whole=whole) for option in options]
        return "" if "" in found else found[0]
    if kind in _NAMES:
        fits = isinstance(value, (int, float) if kind is float else kind) and (kind is bool or not isinstance(value, bool))
        return "" if fits else f"{path or 'it'} is no {_NAMES[kind]}"
    if kind in (list, tuple):
        if not isinstance(value, list):
            return f"{path or 'it'} is no list"
        places = [(options[0], item, f"{path}[{index}]") for index, item in enumerate(value)]
    else:
        if not isinstance(value, dict):
            return f"{path or 'it'} is no mapping"
        hints: Mapping[str, Any] = dict.fromkeys(value, options[1]) if options else _hints(kind)
        dotted = {name: f"{path}.{name}" if path else name for name in hints}
        if whole and (missing := [name for name in hints if name not in value]):
            return f"it has no {dotted[missing[0]]}"
        places = [(hints[name], item, dotted[name]) for name, item in value.items() if name in hints]
    return next((wrong for place in places if (wrong := misfit(*place, whole=whole))), "")


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)
