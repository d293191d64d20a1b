"""`optimizer` and `scheduler` of the JSON -> their groups, where compiling them gives the same arguments back; else the section
stays as it is under `deepspeed` and the group is none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zerocfg.deepspeed.importer.express import Expression
from zerocfg.deepspeed.keys import optimizer_params, scheduler_params
from zerocfg.diagnostics import Severity
from zerocfg.facts import HardwareFacts
from zerocfg.passes.resolve.hardware import resolve_hardware
from zerocfg.passes.resolve.optimizer import ACCEPTED, resolve_optimizer
from zerocfg.passes.resolve.scheduler import TYPES, resolve_scheduler
from zerocfg.schema.hardware import HardwareConfig
from zerocfg.schema.load import field_names
from zerocfg.schema.optimizer import OptimizerConfig, SchedulerConfig
from zerocfg.schema.run import TrainConfig
from zerocfg.schema.types import Accelerator

SET_BY_OPTION: dict[str, tuple[str, ...]] = {
    "adamw": ("betas", "eps", "weight_decay"),
    "adam": ("betas", "eps", "weight_decay", "adam_w_mode"),
    "lion": ("betas", "weight_decay"),
    "adagrad": ("eps", "weight_decay"),
    "lamb": ("betas", "eps", "weight_decay", "max_coeff", "min_coeff"),
    "muon": ("muon_lr", "adam_lr", "momentum", "betas", "eps", "weight_decay"),
}
"""Fields that conf/optimizer/*.yaml set: null where the file leaves the class's default."""
OPTIONS = {"WarmupLR": "warmup_lr", "WarmupDecayLR": "warmup_decay", "WarmupCosineLR": "warmup_cosine", "OneCycle": "one_cycle"}
"""scheduler.type -> option of the group."""
LENGTH = "scheduler.params.total_num_steps"
_SCHEDULER_FIELDS = tuple(name for name in field_names(SchedulerConfig) if name not in ("name", "type"))
_TRAIN_STEPS = int(TrainConfig().steps)
_REQUIRED_RATES = ("scheduler.params.cycle_min_lr", "scheduler.params.cycle_max_lr")


def _gpus() -> HardwareFacts:
    """On cpu the optimizer group takes another class; what a JSON means is about GPUs."""
    config = HardwareConfig(accelerator=Accelerator.cuda, gpus_per_node=1, memory_bytes=0, compute_capability="8.0")
    return resolve_hardware(config, None).value


def optimizer(to: Expression) -> None:
    to.groups["optimizer"] = "none"
    kind = str(to.left.get("optimizer.type", "")).lower()
    if kind in ACCEPTED:
        _optimizer(to, kind)
    to.move("gradient_clipping", "optimizer.gradient_clipping")


def _optimizer(to: Expression, kind: str) -> None:
    params = _params(to, "optimizer")
    offloaded = to.groups["offload"] != "none" or to.values.get("offload.optimizer", "none") != "none"
    default_lr = (optimizer_params(kind, offloaded) or {})["lr"].default
    fields = {name: params[name] for name in ACCEPTED[kind] if name in params}
    fields.setdefault("lr", default_lr)
    if not all(_holds(OptimizerConfig, name, value) for name, value in fields.items()):
        return
    resolved = resolve_optimizer(OptimizerConfig(type=kind, **fields), _gpus())
    if resolved.problems or _two_rates_under_one(to, kind, fields):
        return
    to.groups["optimizer"] = kind
    to.take("optimizer.type", f"optimizer={kind}")
    for name in ACCEPTED[kind]:
        path = f"optimizer.params.{name}"
        if name in params:
            to.values[f"optimizer.{name}"] = to.take(path, f"optimizer.{name}")
        elif name == "lr":
            to.values["optimizer.lr"] = default_lr
        elif name in SET_BY_OPTION[kind]:
            to.values[f"optimizer.{name}"] = None


def _two_rates_under_one(to: Expression, kind: str, fields: Mapping[str, Any]) -> bool:
    """Muon's two rates under a schedule that sets one: the schedule overwrites both, which the groups refuse (ZC323)."""
    rates = {fields.get(name, fields["lr"]) for name in ("muon_lr", "adam_lr")}
    return kind == "muon" and len(rates) > 1 and to.left.get("scheduler.type") in ("WarmupLR", "WarmupDecayLR", "OneCycle")


def scheduler(to: Expression) -> None:
    to.groups["scheduler"] = "none"
    kind = str(to.left.get("scheduler.type", ""))
    if kind in TYPES and not _scheduler(to, kind):
        _kept(to, kind)


def _scheduler(to: Expression, kind: str) -> bool:
    """Every argument is written out, given or DeepSpeed's default: the group's own defaults are others."""
    given, known = _params(to, "scheduler"), scheduler_params(kind) or {}
    wanted = {name: given.get(name, key.default) for name, key in known.items() if name in given or not key.required}
    if wanted.get("warmup_max_lr", "") is None:
        if to.groups["optimizer"] == "none":
            return False  # the script's own rate, which the group cannot know
        del wanted["warmup_max_lr"]  # the group's null is the optimizer's rate as well
    fields = {name: wanted[name] for name in _SCHEDULER_FIELDS if wanted.get(name) is not None}
    if not all(_holds(SchedulerConfig, name, value) for name, value in fields.items()):
        return False
    steps = _steps(to, fields) if "total_num_steps" in known else int(to.values.get("train.steps", _TRAIN_STEPS))
    resolved = resolve_scheduler(SchedulerConfig(type=kind, **fields), to.values.get("optimizer.lr", 0.0), steps)
    if any(problem.severity is Severity.ERROR for problem in resolved.problems):
        return False
    if steps != to.values.get("train.steps", _TRAIN_STEPS):
        to.values["train.steps"] = steps
    to.groups["scheduler"] = OPTIONS[kind]
    to.take("scheduler.type", f"scheduler={OPTIONS[kind]}")
    untouched = SchedulerConfig()
    for name, value in fields.items():
        path = f"scheduler.params.{name}"
        if path in to.left:
            to.take(path, f"scheduler.{name}")
        if value != getattr(untouched, name):
            to.values[f"scheduler.{name}"] = value
    for name, value in resolved.value.params.items():
        path = f"scheduler.params.{name}"
        if name in wanted and wanted[name] != value:
            to.left[path] = wanted[name]  # laid over what the group writes
        elif path in to.left:
            to.take(path, f"scheduler={OPTIONS[kind]}")
    return True


def _kept(to: Expression, kind: str) -> None:
    """The section stays under `deepspeed`; what its class needs must be in it."""
    if kind == "OneCycle" and any(path not in to.left for path in _REQUIRED_RATES):
        for path in to.draft.below("scheduler"):
            to.draft.refuse(path, "ZC657", "OneCycle needs cycle_min_lr and cycle_max_lr; try: scheduler=one_cycle")
    elif (scheduler_params(kind) or {}).get("total_num_steps") is not None and LENGTH not in to.left:
        to.left[LENGTH] = int(to.values.get("train.steps", _TRAIN_STEPS))
    elif not to.draft.below("scheduler.params"):
        to.left["scheduler.params"] = {}  # the engine hands it on as it is


def _steps(to: Expression, fields: Mapping[str, Any]) -> int:
    """train.steps, which stands in for a length that is left open; longer than the warmup."""
    steps = int(to.values.get("train.steps", _TRAIN_STEPS))
    warmup = int(fields.get("warmup_num_steps", 0))
    return steps if "total_num_steps" in fields or steps > warmup else 10 * warmup


def _params(to: Expression, kind: str) -> dict[str, Any]:
    prefix = f"{kind}.params."
    return {
        path.removeprefix(prefix): value for path, value in to.left.items() if path.startswith(prefix) and "." not in path[len(prefix) :]
    }


def _holds(cls: type, name: str, value: Any) -> bool:
    """The field of the group can hold it: a list for betas, else a number, a truth value or a word."""
    if name == "betas":
        return isinstance(value, list) and all(isinstance(item, (int, float)) and not isinstance(item, bool) for item in value)
    if name in ("bias_correction", "adam_w_mode"):
        return isinstance(value, bool)
    if name == "warmup_type":
        return isinstance(value, str)
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 2**63
