"""JSON Schema (2020-12) of the config groups, for editors."""

from __future__ import annotations

import typing
from enum import Enum
from typing import Any

from zerocfg.schema import FREE, GROUPS, SECTIONS
from zerocfg.schema.describe import FieldDoc, describe
from zerocfg.schema.types import Count, CountOrAuto

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def groups_schema() -> dict[str, Any]:
    """Schema of a whole config: every group and section; an app may have keys of its own beside them."""
    properties = {name: section_schema(cls) for name, cls in {**GROUPS, **SECTIONS}.items()}
    properties |= {name: {"type": "object"} for name in FREE}
    return {"$schema": DIALECT, "title": "zerocfg config", "type": "object", "properties": properties}


def section_schema(cls: type) -> dict[str, Any]:
    return {
        "type": "object",
        "description": " ".join((cls.__doc__ or "").split()),
        "properties": {field.name: _field(field) for field in describe(cls)},
        "additionalProperties": False,
    }


_OPEN = {"type": "string", "pattern": r"^\?\?\?$|\$\{"}
"""A value left open (???) or taken from elsewhere (${...}), which any field of a YAML file may be."""


def _field(field: FieldDoc) -> dict[str, Any]:
    schema = _hint(field.hint)
    if "string" not in schema.get("type", ()):
        schema = {"anyOf": [schema, _OPEN]}
    schema["description"] = " ".join(field.doc.split())
    schema["default"] = getattr(field.default, "value", field.default)
    return schema


def _hint(hint: Any) -> dict[str, Any]:
    arguments = typing.get_args(hint)
    if type(None) in arguments:
        rest = tuple(a for a in arguments if a is not type(None))
        inner = _hint(rest[0] if len(rest) == 1 else typing.Union[rest])
        if "enum" in inner:
            return {"enum": [*inner["enum"], None]}
        if "anyOf" in inner:
            return {"anyOf": [*inner["anyOf"], {"type": "null"}]}
        kinds = inner.pop("type", [])
        return {**inner, "type": [*(kinds if isinstance(kinds, list) else [kinds]), "null"]}
    if hint == Count:
        return {"type": "number", "multipleOf": 1}
    if hint == CountOrAuto:
        return {"anyOf": [{"type": "number", "multipleOf": 1}, {"const": "auto"}]}
    if typing.get_origin(hint) is list:
        return {"type": "array", "items": _hint(arguments[0])}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"enum": [member.value for member in hint]}
    return {"type": {str: "string", bool: "boolean", float: "number", int: "integer"}[hint]}
