"""What a DeepSpeed JSON means once DeepSpeed has filled in its defaults: the base of `zerocfg diff`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from zerocfg.deepspeed.keys import all_keys, optimizer_params, scheduler_params
from zerocfg.deepspeed.view import View


def effective(config: Mapping[str, Any], *, world_size: int | None = None) -> dict[str, Any]:
    """Dotted path -> value in effect. A key without effect (wrong stage, its section off, dead) is left out; the batch
    triple is completed where the numbers and `world_size` allow it."""
    view = View(config, world_size=world_size)
    found: dict[str, Any] = {}
    for key in all_keys():
        if key.is_section or "*" in key.path or key.status in ("dead", "removed", "deprecated"):
            continue
        if key.path.startswith(("optimizer.params.", "scheduler.params.")):
            continue
        if (key.stages and view.stage not in key.stages) or view.unmet(key.needs):
            continue
        if _switched_off(key.path, view):
            continue
        found[key.path] = view.value(key.path)
    found["zero_optimization.stage"] = view.stage
    if view.stage >= 1:
        found["zero_optimization.overlap_comm"] = view.overlap_comm
    for kind, type_, given, accepted in (
        ("optimizer", view.optimizer_type, view.optimizer_params, optimizer_params(view.optimizer_type or "", view.offloaded)),
        ("scheduler", view.scheduler_type, view.scheduler_params, scheduler_params(view.scheduler_type or "")),
    ):
        found[f"{kind}.type"] = type_
        defaults = {name: key.default for name, key in (accepted or {}).items()}
        for name, value in {**defaults, **given}.items():
            found[f"{kind}.params.{name}"] = value
    found |= _batch(found, world_size)
    return {path: list(value) if isinstance(value, tuple) else value for path, value in found.items() if value is not None}


def _switched_off(path: str, view: View) -> bool:
    """A key below a section whose `enabled` is false."""
    section = path.rpartition(".")[0]
    while section:
        switch = f"{section}.enabled"
        if switch != path and any(key.path == switch for key in all_keys()) and not view.on(switch):
            return True
        section = section.rpartition(".")[0]
    return False


def _batch(found: Mapping[str, Any], world_size: int | None) -> dict[str, Any]:
    names = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
    total, micro, steps = (found.get(name) for name in names)
    if world_size and total and micro and not steps:
        steps = total // (micro * world_size)
    elif world_size and total and not micro:
        steps = steps or 1
        micro = total // (steps * world_size)
    elif micro and not total:
        steps = steps or 1
        total = micro * steps * world_size if world_size else None
    return {name: value for name, value in zip(names, (total, micro, steps), strict=True) if value}


@dataclass(frozen=True, slots=True)
class Difference:
    path: str
    before: Any
    """None: not in effect."""
    after: Any

    def as_dict(self) -> dict[str, Any]:
        return {"path": self.path, "a": self.before, "b": self.after}


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Difference]:
    """What differs between two mappings of leaves, by path."""
    return [
        Difference(path, before.get(path), after.get(path)) for path in sorted({*before, *after}) if before.get(path) != after.get(path)
    ]
