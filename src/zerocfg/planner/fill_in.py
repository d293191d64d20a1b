"""What the compiler calls for fields that are left open."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from zerocfg.compiler import Decision, open_fields, resolve
from zerocfg.diagnostics import Diagnostic, Severity
from zerocfg.facts import Detected, HardwareFacts
from zerocfg.planner.rank import Ranked, Search, search
from zerocfg.planner.rule import rule_of_size
from zerocfg.planner.space import NONE, Axes, changed, value_at
from zerocfg.schema import RunConfig
from zerocfg.units import human_bytes


def axes_of(left: list[str]) -> Axes:
    """Only what is open may change; sizes follow a stage that is."""
    stage = "parallelism.stage" in left
    return Axes(
        stage=stage,
        offload=tuple(name for name in ("optimizer", "param") if f"offload.{name}" in left),
        checkpointing="activation_checkpointing.enabled" in left,
        micro_batch="batch.micro_batch_size" in left,
        sizes=stage,
    )


ReadCalibration = Callable[[HardwareFacts], "tuple[Mapping[str, Any] | None, Sequence[Diagnostic]]"]
"""(what was measured or None, what is wrong with it)."""


def fill_in(config: RunConfig, detected: Detected | None, torch: str = "", *, stored: ReadCalibration | None = None) -> Decision:
    """Give every open field its value. Codes: ZC501, ZC502 of the smallest plan when none fits, ZC511 chosen by the rule of size."""
    left = open_fields(config)
    settled = changed(config, _stand_ins(left))
    plan = resolve(settled, detected, torch)[0]
    if not plan.is_described:
        return _by_rule(config, detected, torch, left)
    calibration, told = stored(plan.hardware) if stored is not None else (None, ())
    found = search(settled, detected, axes_of(left), torch=torch, calibration=calibration)
    if not found.ranked:
        # without a plan that resolves, the compiler finds the same problems once more
        return Decision(settled, {}, [*told, *found.too_large])
    best = found.ranked[0]
    decided = {path: value for path, value in best.changes.items() if path in left or value != value_at(config, path)}
    return Decision(changed(config, decided), dict.fromkeys(decided, reason(best, found)), list(told))


def reason(best: Ranked, found: Search) -> str:
    """What `zerocfg explain` says of a value that the planner has chosen."""
    memory = f"{human_bytes(best.memory.needed_bytes)} of {human_bytes(best.memory.memory_bytes)}"
    return (
        f"the fastest of {found.tried} plans: {best.tokens_per_s_per_gpu:,.0f} tokens/s a GPU predicted from the {found.rates.source},"
        f" limited by {best.limiting}; {memory}, hardware.memory_target={best.plan.hardware.memory_target:g}"
    )


def _stand_ins(left: list[str]) -> dict[str, Any]:
    """Values that let the rest of the config be resolved."""
    values: dict[str, Any] = {
        "parallelism.stage": 3,
        "offload.optimizer": NONE,
        "offload.param": NONE,
        "activation_checkpointing.enabled": False,
        "batch.micro_batch_size": None,
    }
    return {path: values[path] for path in left}


def _by_rule(config: RunConfig, detected: Detected | None, torch: str, left: list[str]) -> Decision:
    settled = changed(config, _stand_ins(left))
    plan = resolve(settled, detected, torch)[0]
    stage = None if "parallelism.stage" in left else plan.zero.stage
    chosen = rule_of_size(max(0, int(config.model.num_parameters or 0)), plan.hardware, stage)
    changes = {path: chosen.changes[path] for path in left}
    if config.batch.global_batch_size is not None and config.batch.gradient_accumulation_steps is not None:
        # global and accumulation are given: they leave one micro batch
        changes = {path: None if path == "batch.micro_batch_size" else value for path, value in changes.items()}
    note = Diagnostic(
        code="ZC511",
        severity=Severity.WARNING,
        path=left[0],
        message=f"chosen without a prediction: {chosen.why}",
        hint="the model's dims: model=llama3_8b, model.hf_config=PATH, or the keys of the group model",
    )
    return Decision(changed(config, changes), dict.fromkeys(left, chosen.why), [note])
