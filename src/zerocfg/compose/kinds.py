"""What the schema wants at a config path."""

from __future__ import annotations

import typing
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any

from zerocfg.schema import FREE, GROUPS, SECTIONS
from zerocfg.schema.load import _hints  # evaluating them twice would cost every compile 2 ms
from zerocfg.schema.types import Count, CountOrAuto


@dataclass(frozen=True, slots=True)
class Kind:
    """name: text, number, count, truth, choice, list, mapping, free or env (the two free mappings)."""

    name: str
    optional: bool = False
    words: tuple[str, ...] = ()
    """choice: what may be written."""
    item: str = ""
    """list: the kind of an item."""

    @property
    def wanted(self) -> str:
        if self.name == "list":
            return {"number": "a list of numbers", "text": "a list of texts"}.get(self.item, "a list")
        if self.name == "choice":
            return "one of " + ", ".join(self.words)
        words = {"number": "a number", "count": "a whole number", "truth": "true or false", "text": "text", "mapping": "a mapping"}
        return words.get(self.name, "a value")


@lru_cache(maxsize=1)
def typed_keys() -> dict[str, Kind]:
    """section.field -> kind, for every key of the schema."""
    return {f"{section}.{name}": kind_of(hint) for section, cls in {**GROUPS, **SECTIONS}.items() for name, hint in _hints(cls).items()}


def kind_at(path: str) -> Kind | None:
    """None where the schema says nothing: an app's own keys, unknown keys."""
    section = path.partition(".")[0]
    if section in FREE:
        return Kind("env" if section == "env" else "free") if "." in path else None
    bare, bracket, _ = path.partition("[")
    kind = typed_keys().get(bare)
    return Kind(kind.item) if kind is not None and bracket and kind.name == "list" else kind


def describe(value: object) -> str:
    """What a value is, as a user would say it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, (int, float)):
        return "a number"
    words: dict[type, str] = {str: "text", list: "a list", dict: "a mapping"}
    return words.get(type(value), type(value).__name__)


def kind_of(hint: Any) -> Kind:
    """hint: the annotation of a config dataclass's field."""
    args = typing.get_args(hint)
    optional = type(None) in args
    if optional:
        rest = tuple(a for a in args if a is not type(None))
        hint = rest[0] if len(rest) == 1 else typing.Union[rest]  # noqa: UP007
    if typing.get_origin(hint) is list:
        return Kind("list", optional, item=kind_of(typing.get_args(hint)[0]).name)
    if typing.get_origin(hint) is dict:
        return Kind("mapping", optional)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return Kind("choice", optional, words=tuple(member.name for member in hint))
    names = {str: "text", float: "number", int: "count", bool: "truth", Count: "count", CountOrAuto: "count"}
    return Kind(names.get(hint, "text"), optional)
