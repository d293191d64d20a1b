"""zerocfg schema: what may be written, as a list or as JSON Schema for editors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from zerocfg.cli import output
from zerocfg.deepspeed.jsonschema import deepspeed_schema
from zerocfg.deepspeed.keys import Key, all_keys
from zerocfg.schema import GROUPS, SECTIONS
from zerocfg.schema.describe import describe
from zerocfg.schema.jsonschema import groups_schema

PARTS = ("config", "deepspeed")


def schema_command(part: str | None = None, *, as_json: bool = False) -> int:
    """part: config (the groups, a YAML file) or deepspeed (the JSON); None is both.

    as_json: one JSON Schema (2020-12). Both: the config's, whose `deepspeed` mapping is the DeepSpeed JSON's, under $defs.
    """
    if as_json:
        output.product_json(document(part))
    else:
        output.product("\n".join(lines(part)))
    return 0


def document(part: str | None) -> dict[str, Any]:
    if part == "deepspeed":
        return deepspeed_schema()
    config = groups_schema()
    if part is None:
        inner = {name: value for name, value in deepspeed_schema().items() if name != "$schema"}
        config["properties"]["deepspeed"] = {"$ref": "#/$defs/deepspeed"}
        config["$defs"] = {"deepspeed": inner}
    return config


def lines(part: str | None) -> Iterator[str]:
    """`path  type  default  meaning`, one greppable line each."""
    if part != "deepspeed":
        for name, cls in {**GROUPS, **SECTIONS}.items():
            for field in describe(cls):
                default = getattr(field.default, "value", field.default)
                yield _line(f"{name}.{field.name}", field.type_text, default, field.doc)
    if part != "config":
        for key in all_keys():
            if not key.is_section and key.status != "removed":
                yield _line(f"deepspeed.{key.path}" if part is None else key.path, key.type, key.default, _doc(key))


def _doc(key: Key) -> str:
    limits = [f"stage {' or '.join(map(str, key.stages))}"] if key.stages else []
    limits += [key.status] if key.status in ("dead", "deprecated") else []
    return key.doc + (f" ({', '.join(limits)})" if limits else "")


def _line(path: str, kind: str, default: Any, doc: str) -> str:
    return f"{path}  {kind}  {json.dumps(list(default) if isinstance(default, tuple) else default)}  {' '.join(doc.split())}".rstrip()
