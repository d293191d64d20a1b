"""Arguments of optimizers and schedules, from the signatures of their classes."""

from __future__ import annotations

import inspect
from typing import Any

from zerocfg.deepspeed.catalogue.classes import MUON_DEFAULTS, OPTIMIZER_CLASSES, REFUSED, TAKEN_OUT, WHOLE_NUMBERS
from zerocfg.deepspeed.introspect.release import load

REQUIRED = "<required>"
Parameters = dict[str, tuple[str, object]]
"""Name -> (kinds as in `zerocfg.deepspeed.keys.Key.type`, default or REQUIRED)."""


def parameters(class_: Any) -> Parameters:
    """The arguments of `class_` beyond the first, which is the parameters or the optimizer."""
    found: Parameters = {}
    for name, parameter in list(inspect.signature(class_.__init__).parameters.items())[2:]:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        default = REQUIRED if parameter.default is parameter.empty else _plain(parameter.default)
        found[name] = (_kinds(name, default), default)
    return found


def _plain(value: object) -> object:
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return None  # a tensor or callable: not for JSON


def _kinds(name: str, default: object) -> str:
    if name in WHOLE_NUMBERS:
        return "int" if default is not None else "int|null"
    if isinstance(default, bool):
        return "bool"
    if isinstance(default, int | float):
        return "float|list" if name.startswith(("warmup_", "cycle_", "lr_range_test_")) else "float"
    if isinstance(default, list):
        return "list"
    if isinstance(default, str) and default != REQUIRED:
        return "str"
    if name == "warmup_max_lr":
        return "float|list|null"
    return "any"


def optimizers() -> dict[str, dict[str, Parameters]]:
    """DeepSpeed's optimizer type -> variant (gpu, cpu, torch) -> arguments that the JSON may hold."""
    from deepspeed.runtime.config import DEEPSPEED_OPTIMIZERS

    found: dict[str, dict[str, Parameters]] = {}
    for type_ in (*(name for name in OPTIMIZER_CLASSES if name in DEEPSPEED_OPTIMIZERS), *DEEPSPEED_OPTIMIZERS):
        if type_ in found:
            continue
        variants: dict[str, Parameters] = {}
        for variant, reference in OPTIMIZER_CLASSES.get(type_, {}).items():
            accepted = {**parameters(load(reference)), **TAKEN_OUT.get(type_, {})}
            variants[variant] = {name: fact for name, fact in accepted.items() if name not in REFUSED.get(type_, ())}
        found[type_] = variants
    found["muon"] = {"gpu": _muon()}
    return found


def _muon() -> Parameters:
    from deepspeed.runtime.engine import DeepSpeedEngine

    names = dict.fromkeys((*DeepSpeedEngine._MUON_HALF_KEYS, *DeepSpeedEngine._ADAM_HALF_KEYS))
    return {**{name: (_kinds(name, MUON_DEFAULTS[name]), MUON_DEFAULTS[name]) for name in names}, **TAKEN_OUT["muon"]}


def schedulers() -> dict[str, dict[str, Parameters]]:
    """DeepSpeed's schedule -> {"params": arguments}."""
    from deepspeed.runtime import lr_schedules

    return {name: {"params": parameters(getattr(lr_schedules, name))} for name in lr_schedules.VALID_LR_SCHEDULES}


def torch_classes(module: str, base: str) -> dict[str, Parameters]:
    """Public classes of `module` below its class `base` -> arguments."""
    parent = load(f"{module}:{base}")
    names = vars(load(f"{module.rpartition('.')[0]}:{module.rpartition('.')[2]}"))
    return {
        name: parameters(value)
        for name, value in sorted(names.items())
        if inspect.isclass(value) and issubclass(value, parent) and value is not parent and not name.startswith("_")
    }
