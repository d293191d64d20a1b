"""Sections that a pydantic model validates: names, aliases, types, defaults, limits, deprecations."""

from __future__ import annotations

import types
import typing
from pathlib import Path
from typing import Any

from zerocfg.deepspeed.introspect.release import Row, load

MODELS: dict[str, str] = {
    "zero_optimization": "deepspeed.runtime.zero.config:DeepSpeedZeroConfig",
    "fp16": "deepspeed.runtime.precision_config:DeepSpeedFP16Config",
    "bf16": "deepspeed.runtime.precision_config:DeepSpeedBF16Config",
    "hybrid_engine": "deepspeed.runtime.config:HybridEngineConfig",
    "tensorboard": "deepspeed.monitor.config:TensorBoardConfig",
    "wandb": "deepspeed.monitor.config:WandbConfig",
    "csv_monitor": "deepspeed.monitor.config:CSVConfig",
    "comet": "deepspeed.monitor.config:CometConfig",
    "comms_logger": "deepspeed.comm.config:CommsLoggerConfig",
    "compile": "deepspeed.compile.config:CompileConfig",
    "timers.throughput": "deepspeed.utils.config:DeepSpeedThroughputTimerConfig",
    "tensor_parallel": "deepspeed.runtime.tensor_parallel.config:TPTrainingConfig",
    "weight_quantization": "deepspeed.inference.config:WeightQuantConfig",
}
"""Sections that a pydantic model validates; the models inside them are found by their fields."""


def model_rows() -> dict[str, Row]:
    """Path -> what the models of the release say of it."""
    found: dict[str, Row] = {}
    for path, reference in MODELS.items():
        found[path] = {"type": "section"}
        _read_model(load(reference), path, found)
    return found


def _read_model(model: Any, section: str, found: dict[str, Row]) -> None:
    from pydantic import BaseModel

    for name, info in model.model_fields.items():
        path = f"{section}.{info.alias or name}"
        row: Row = {"type": _type_of(info.annotation)}
        if info.alias:
            row["aliases"] = (f"{section}.{name}",)
        inner = next((a for a in _alternatives(info.annotation) if isinstance(a, type) and issubclass(a, BaseModel)), None)
        if inner is None:
            row["default"] = _plain(info.get_default(call_default_factory=True))
        choices = _choices(info.annotation)
        if choices:
            row["choices"] = choices
        for limit in info.metadata:
            for bound in ("gt", "ge", "lt", "le"):
                if getattr(limit, bound, None) is not None:
                    row[bound] = getattr(limit, bound)
        extra = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
        if extra.get("deprecated"):
            new = str(extra.get("new_param", ""))
            row["status"] = "deprecated"
            row["replacement"] = " or ".join(f"{section}.{_json_name(model, part)}" for part in new.split(" or ")) if new else ""
        found[path] = row
        if inner is not None:
            _read_model(inner, path, found)


def _json_name(model: Any, name: str) -> str:
    info = model.model_fields.get(name)
    return info.alias if info is not None and info.alias else name


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return typing.get_args(annotation)
    return (annotation,)


def _type_of(annotation: Any) -> str:
    from enum import Enum

    from pydantic import BaseModel

    words: list[str] = []
    for alternative in _alternatives(annotation):
        origin = typing.get_origin(alternative)
        if alternative is type(None):
            words.append("null")
        elif origin is typing.Literal:
            words.append(type(typing.get_args(alternative)[0]).__name__)
        elif origin is list:
            inner = typing.get_args(alternative)[0]
            words.append(f"list[{_type_of(inner)}]")
        elif alternative is list or alternative is tuple:
            words.append("list")
        elif alternative is dict or origin is dict or alternative is typing.Dict:  # noqa: UP006
            words.append("object")
        elif isinstance(alternative, type) and issubclass(alternative, BaseModel):
            words.append("section")
        elif isinstance(alternative, type) and issubclass(alternative, Enum):
            words.append("int" if issubclass(alternative, int) else "str")
        elif isinstance(alternative, type) and issubclass(alternative, Path):
            words.append("path")
        elif alternative in (bool, int, float, str):
            words.append(alternative.__name__)
        else:
            words.append("unwritable")  # a Python object: no JSON value fits
    return "|".join([*(word for word in words if word != "null"), *(word for word in words if word == "null")])


def _choices(annotation: Any) -> tuple[object, ...]:
    from enum import Enum

    for alternative in _alternatives(annotation):
        origin = typing.get_origin(alternative)
        if origin is typing.Literal:
            return typing.get_args(alternative)
        if origin is list:
            return _choices(typing.get_args(alternative)[0])
        if isinstance(alternative, type) and issubclass(alternative, Enum):
            return tuple(dict.fromkeys(member.value for member in alternative))
    return ()


def _plain(value: object) -> object:
    """A default as JSON would say it."""
    from enum import Enum

    if isinstance(value, Enum):
        return value.value
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, str | float | dict):
        return value
    return str(value)
