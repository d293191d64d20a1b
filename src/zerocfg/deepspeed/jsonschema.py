"""JSON Schema (2020-12) of the DeepSpeed JSON, from the key table."""

from __future__ import annotations

from typing import Any

from zerocfg.deepspeed.keys import Key, children, release

_TYPES = {
    "bool": "boolean",
    "int": "integer",
    "float": "number",
    "str": "string",
    "path": "string",
    "list": "array",
    "object": "object",
    "null": "null",
}


def deepspeed_schema() -> dict[str, Any]:
    """Schema of the JSON that DeepSpeed reads; unknown keys are refused, as DeepSpeed ignores them in silence."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"DeepSpeed {release()} config",
        **_object(""),
    }


def _object(section: str) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    extra: Any = False
    for key in children(section):
        if key.status == "removed":
            continue
        if key.name == "*":
            extra = _key(key)
            continue
        properties[key.name] = _key(key)
        for alias in key.aliases:
            if alias.rpartition(".")[0] == section:
                properties[alias.rpartition(".")[2]] = properties[key.name]
    return {"type": "object", "properties": properties, "additionalProperties": extra}


def _key(key: Key) -> dict[str, Any]:
    if key.is_section:
        schema = _object(key.path)
        also = [_TYPES[kind] for kind in key.kinds if kind != "section"]
        if key.path == "zero_optimization":
            also.append("boolean")  # the old form: true is stage 1
        if also:
            schema["type"] = ["object", *also]
    else:
        schema = _leaf(key)
        if key.kinds[0] == "object" and (names := children(key.path)):
            schema["properties"] = {child.name: _key(child) for child in names}  # others are the class's own
    if key.doc:
        schema["description"] = key.doc
    if key.default is not None:
        schema["default"] = list(key.default) if isinstance(key.default, tuple) else key.default
    if key.status in ("deprecated", "dead"):
        schema["deprecated"] = True
    return schema


def _leaf(key: Key) -> dict[str, Any]:
    kinds = [kind for kind in key.kinds if not kind.startswith('"')]
    words = [kind.strip('"') for kind in key.kinds if kind.startswith('"')]
    if key.choices and not key.casefold:
        return {"enum": [*key.choices, *words, *([None] if "null" in kinds else [])]}
    types: list[str] = []
    schema: dict[str, Any] = {}
    for kind in kinds:
        base, _, inner = kind.partition("[")
        types.append(_TYPES.get(base, "string"))
        if inner:
            schema["items"] = {"type": _TYPES.get(inner.rstrip("]"), "string")}
    if words and "string" not in types:
        return {"anyOf": [{**schema, "type": types}, {"enum": words}]} if types else {"enum": words}
    schema["type"] = types[0] if len(types) == 1 else types
    for limit, name in (("gt", "exclusiveMinimum"), ("ge", "minimum"), ("lt", "exclusiveMaximum"), ("le", "maximum")):
        if getattr(key, limit) is not None:
            schema[name] = getattr(key, limit)
    return schema
