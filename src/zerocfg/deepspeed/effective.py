"""What a DeepSpeed JSON means once DeepSpeed has filled in its defaults: the base of `zerocfg diff`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from zerocfg.deepspeed.check_batch import batch_ranks
from zerocfg.deepspeed.check_precision import dtype_of
from zerocfg.deepspeed.keys import Key, all_keys, lookup, optimizer_params, scheduler_params
from zerocfg.deepspeed.values import Outcome
from zerocfg.deepspeed.view import View

OVERLAP = "zero_optimization.overlap_comm"
TOTAL, MICRO, STEPS = "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"


def effective(config: Mapping[str, Any], *, world_size: int | None = None) -> dict[str, Any]:
    """Dotted path -> value in effect.

    A key without effect (wrong stage, its section off, dead, unknown) is left out. The batch numbers are completed where they
    and `world_size` allow it, and values that the engine takes for one another are one.
    """
    view = View(config, world_size=world_size, prefix="")
    found = {key.path: view.value(key.path) for key in all_keys() if _is_plain(key) and _acts(key, view)}
    for item in view.items:  # free names, lists of dicts, objects
        arguments = item.path.startswith(("optimizer.params", "scheduler.params"))
        if item.key is not None and not arguments and not item.key.is_section and not _is_plain(item.key) and _acts(item.key, view):
            found[item.path] = item.value
    for item in view.items:  # whoever fills it in: until then it is no value
        if item.judgement is not None and item.judgement.outcome is Outcome.AUTO and item.path in found:
            found[item.path] = "auto"
    found |= _stage(view) | _types(view) | _classes(view) | _batch(view)
    return {path: _plain(value) for path, value in found.items() if value is not None and value != {} and value != []}


def _is_plain(key: Key) -> bool:
    """Has one place and one value."""
    free = key.is_section or "*" in key.path or key.kinds[0] == "object"
    return not free and not key.path.startswith(("optimizer.params.", "scheduler.params."))


def _acts(key: Key, view: View) -> bool:
    """It is read, and all that it needs acts too."""
    live = key.status not in ("dead", "removed", "deprecated")
    return live and not (key.stages and view.stage not in key.stages) and all(_holds(condition, view) for condition in key.needs)


def _holds(condition: str, view: View) -> bool:
    if condition == "tensor_parallel.autotp_size":
        return view.autotp_size > 1  # (engine.py:595)
    return any(not view.unmet((part,)) and _is_on(part.partition("=")[0], view) for part in condition.split(" or "))


def _is_on(path: str, view: View) -> bool:
    key = lookup(path)
    return key is None or key.is_section or not key.needs or _acts(key, view)


def _stage(view: View) -> dict[str, Any]:
    zero = "zero_optimization"
    found: dict[str, Any] = {f"{zero}.stage": view.stage}
    if view.stage >= 1:
        found[OVERLAP] = view.overlap_comm
        found[f"{zero}.offload_optimizer.device"] = view.optimizer_device
    if view.stage == 3:
        found[f"{zero}.offload_param.device"] = view.param_device
        # below 2 it is off (stage3.py:271)
        found[f"{zero}.zero_hpz_partition_size"] = max(1, int(view.number(f"{zero}.zero_hpz_partition_size")))
    # below 2 it is off (engine.py:595)
    found["tensor_parallel.autotp_size"] = max(1, view.autotp_size)
    return found


def _types(view: View) -> dict[str, Any]:
    """Types that are left open are the model's (engine.py:1719, 1799)."""
    found: dict[str, Any] = {
        "data_types.grad_accum_dtype": dtype_of(view.value("data_types.grad_accum_dtype")) or view.precision,
        "communication_data_type": view.value("communication_data_type") or view.precision,
    }
    if view.has("sequence_parallel_size") and view.has("data_parallel_size"):
        found["communication_data_type"] = None  # the other one is used (engine.py:2182)
    else:
        found["seq_parallel_communication_data_type"] = None
    return found


def _classes(view: View) -> dict[str, Any]:
    """The optimizer and the schedule with what their classes fill in."""
    found: dict[str, Any] = {}
    for kind, type_, given in (
        ("optimizer", view.optimizer_type, view.optimizer_params),
        ("scheduler", view.scheduler_type, view.scheduler_params),
    ):
        found[f"{kind}.type"] = type_
        if type_ is None:
            continue
        torch_adam = given.get("torch_adam") is True
        known = optimizer_params(type_, view.offloaded, torch_adam=torch_adam) if kind == "optimizer" else scheduler_params(type_)
        for name, value in {**{name: key.default for name, key in (known or {}).items()}, **given}.items():
            found[f"{kind}.params.{name}"] = value
    if found["optimizer.type"] == "adam" and found.get("optimizer.params.adam_w_mode") is True:
        found["optimizer.type"] = "adamw"  # DeepSpeed's Adam decouples weight decay unless told otherwise (engine.py:2486)
    if found["optimizer.type"] == "adamw":
        found.pop("optimizer.params.adam_w_mode", None)
    if found.get("scheduler.params.warmup_max_lr", "") is None:
        found["scheduler.params.warmup_max_lr"] = found.get("optimizer.params.lr")  # (lr_schedules.py:720)
    warmup = found.get("scheduler.params.warmup_num_steps")
    if isinstance(warmup, int):
        found["scheduler.params.warmup_num_steps"] = max(2, warmup)  # (lr_schedules.py:726)
    return found


def _batch(view: View) -> dict[str, Any]:
    """What DeepSpeed infers (config.py:607-656), as far as the ranks are known."""
    written = [view.raw(name) for name in (TOTAL, MICRO, STEPS)]
    total, micro, steps = (raw if raw == "auto" else view.value(name) for raw, name in zip(written, (TOTAL, MICRO, STEPS), strict=True))
    ranks = batch_ranks(view)
    if "auto" in written or ranks is None or ranks.denominator != 1:
        return {TOTAL: total, MICRO: micro, STEPS: steps}
    if isinstance(total, int):
        if isinstance(micro, int):
            steps = steps if isinstance(steps, int) else total // int(micro * ranks)
        else:
            steps = steps if isinstance(steps, int) else 1
            micro = total // int(steps * ranks)
    elif isinstance(micro, int):
        steps = steps if isinstance(steps, int) else 1
        total = int(micro * steps * ranks)
    return {TOTAL: total, MICRO: micro, STEPS: steps}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


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


def run_differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Difference]:
    """The same for two results of `effective`: a default that only comes or goes with its stage or section is not told again."""
    return [
        found
        for found in differences(before, after)
        if not (found.before is None and _is_default(found.path, found.after, after))
        and not (found.after is None and _is_default(found.path, found.before, before))
    ]


def _is_default(path: str, value: Any, side: Mapping[str, Any]) -> bool:
    key = lookup(path)
    if key is None or key.required or path in (TOTAL, MICRO, STEPS):
        return False
    if path == OVERLAP:
        return bool(value == (side["zero_optimization.stage"] == 3))
    return bool(value == _plain(key.default))
