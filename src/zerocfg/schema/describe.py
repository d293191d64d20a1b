"""Fields of the config dataclasses with their docstrings, for the generated reference, JSON Schema and completion."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import textwrap
import typing
from dataclasses import dataclass
from enum import Enum
from typing import Any

from zerocfg.schema.types import Count, CountOrAuto


@dataclass(frozen=True, slots=True)
class FieldDoc:
    name: str
    hint: Any
    """The resolved annotation."""
    default: object
    doc: str

    @property
    def optional(self) -> bool:
        return type(None) in typing.get_args(self.hint)

    @property
    def type_text(self) -> str:
        return _type_text(self.hint)


def describe(cls: type) -> list[FieldDoc]:
    """Every field of a config dataclass, in order, with the docstring that stands under it."""
    docs = _field_docstrings(cls)
    hints = typing.get_type_hints(cls)
    found = []
    for field in dataclasses.fields(cls):
        default = field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default
        found.append(FieldDoc(field.name, hints[field.name], default, docs.get(field.name, "")))
    return found


def _field_docstrings(cls: type) -> dict[str, str]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    body = tree.body[0].body  # type: ignore[attr-defined]
    docs: dict[str, str] = {}
    for statement, below in itertools.pairwise(body):
        is_field = isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
        if is_field and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            docs[statement.target.id] = inspect.cleandoc(str(below.value.value))
    return docs


def _type_text(hint: Any) -> str:
    arguments = typing.get_args(hint)
    if type(None) in arguments:
        rest = tuple(a for a in arguments if a is not type(None))
        inner = rest[0] if len(rest) == 1 else typing.Union[rest]
        return _type_text(inner)
    if hint == Count:
        return "whole number"
    if hint == CountOrAuto:
        return "whole number or auto"
    if typing.get_origin(hint) is list:
        return f"list of {_type_text(arguments[0])}"
    if isinstance(hint, type) and issubclass(hint, Enum):
        return " | ".join(str(member.value) for member in hint)
    return {str: "text", bool: "true | false", float: "number", int: "whole number"}.get(hint, getattr(hint, "__name__", str(hint)))
