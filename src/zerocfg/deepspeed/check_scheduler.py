"""scheduler: the class, its arguments, and steps that do not add up. DeepSpeed steps the schedule once an optimizer step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from zerocfg.deepspeed import _classes, keys
from zerocfg.deepspeed.check_optimizer import nearest_type
from zerocfg.deepspeed.rules import Finding, rule
from zerocfg.deepspeed.values import usable_number
from zerocfg.deepspeed.view import View
from zerocfg.diagnostics import Severity

TYPE = "scheduler.type"
POSITIVE_INTEGERS = ("warmup_num_steps", "lr_range_test_step_size")
"""Arguments that the classes test with isinstance(..., int) and > 0: 100.0 raises."""
POSITIVE = ("cycle_first_step_size",)


def _argument(view: View, name: str) -> float | None:
    """An argument of the schedule, or its default; None when it is no number."""
    if name in view.scheduler_params:
        return usable_number(view.scheduler_params[name])
    key = view.scheduler_arguments.get(name)
    return None if key is None else usable_number(key.default)


@rule("ZC655", "a learning-rate schedule that DeepSpeed does not have")
def unknown_schedule(view: View) -> Iterator[Finding]:
    name = view.scheduler_type
    if name is not None and name not in keys.scheduler_types():
        near = nearest_type(name, keys.scheduler_types())
        own = "DeepSpeed's: " + ", ".join(_classes.SCHEDULERS)
        text = "is no schedule of DeepSpeed and no class of torch.optim.lr_scheduler"
        yield Finding(TYPE, text, detail=(own,), hint=view.assign(TYPE, near) if near else "")


@rule("ZC656", "an argument that the schedule does not take")
def unknown_argument(view: View) -> Iterator[Finding]:
    known = view.scheduler_arguments
    for name in view.scheduler_params if known else ():
        if name in known:
            continue
        owners = [owner for owner, facts in _classes.SCHEDULERS.items() if name in facts["params"]]
        near = get_close_matches(str(name), known, n=1, cutoff=0.75)
        path = f"scheduler.params.{name}"
        hint = f"use {view.full(f'scheduler.params.{near[0]}')}" if near and not owners else f"remove {view.full(path)}"
        detail = ("it takes " + ", ".join(known), *((f"{' and '.join(owners)} would take it",) if owners else ()))
        yield Finding(path, f"makes the engine raise: {view.scheduler_type} does not take it", detail=detail, hint=hint)


@rule("ZC657", "a schedule argument that is missing or that its class refuses")
def argument_value(view: View) -> Iterator[Finding]:
    if view.scheduler_type is None or not view.scheduler_arguments:
        return
    if not isinstance(view.value("scheduler.params"), Mapping):
        hint = f"{view.full('scheduler.params')}: {{}}"
        yield Finding("scheduler.params", f"is missing: the engine raises for {view.scheduler_type} without it", hint=hint)
        return
    params = view.scheduler_params
    for name, key in view.scheduler_arguments.items():
        path = f"scheduler.params.{name}"
        value = params.get(name)
        if key.required and name not in params:
            yield Finding(path, f"is missing: {view.scheduler_type} needs it", hint=f"write {view.full(path)}")
        elif name in POSITIVE_INTEGERS and usable_number(value) is not None and (not isinstance(value, int) or value <= 0):
            yield Finding(
                path,
                "must be a whole number above 0, written without a decimal point",
                hint=view.assign(path, max(1, int(usable_number(value) or 1))),
            )
        elif name in POSITIVE and usable_number(value) is not None and (usable_number(value) or 0) <= 0:
            yield Finding(path, "must be above 0", hint=view.assign(path, key.default))
    warmup = params.get("warmup_type")
    if "warmup_type" in view.scheduler_arguments and isinstance(warmup, str) and warmup not in ("log", "linear"):
        path = "scheduler.params.warmup_type"
        yield Finding(path, "is none of log, linear: DeepSpeed warns and takes log", hint=view.assign(path, "linear"))


@rule("ZC658", "a warmup longer than the whole schedule")
def long_warmup(view: View) -> Iterator[Finding]:
    total, warmup = _argument(view, "total_num_steps"), _argument(view, "warmup_num_steps")
    if total is None or warmup is None or warmup <= total or total < 1:  # below 1: ZC657
        return
    written = "warmup_num_steps" in view.scheduler_params
    yield Finding(
        "scheduler.params.warmup_num_steps",
        f"is longer than total_num_steps={total:g}: the learning rate never reaches its peak",
        detail=(f"warmup {warmup:g} > total {total:g}" + ("" if written else " (warmup is the default)"),),
        hint=view.assign("scheduler.params.warmup_num_steps", max(1, int(total // 20))),
        severity=Severity.WARNING,
        value=warmup if not written else ...,
    )


@rule("ZC659", "total_num_steps that may count micro batches; DeepSpeed steps the schedule once an optimizer step")
def micro_steps(view: View) -> Iterator[Finding]:
    total = usable_number(view.scheduler_params.get("total_num_steps"))
    steps = view.value("gradient_accumulation_steps")
    if "total_num_steps" not in view.scheduler_arguments or total is None or not isinstance(steps, int) or steps < 2 or total % steps:
        return
    yield Finding(
        "scheduler.params.total_num_steps",
        f"must count optimizer steps, not micro batches: it is a multiple of gradient_accumulation_steps={steps}",
        detail=(f"if it counts micro batches: {total:g} / {steps} = {total / steps:g} steps",),
        hint=f"{view.assign('scheduler.params.total_num_steps', int(total // steps))} if it counts micro batches",
        severity=Severity.NOTE,
    )


@rule("ZC660", "a peak learning rate that differs from the optimizer's, which it overwrites")
def peak_learning_rate(view: View) -> Iterator[Finding]:
    rate = usable_number(view.optimizer_params.get("lr"))
    if rate is None or "warmup_max_lr" not in view.scheduler_arguments:
        return
    path = "scheduler.params.warmup_max_lr"
    written = "warmup_max_lr" in view.scheduler_params
    peak = _argument(view, "warmup_max_lr")
    if peak is None or peak == rate:
        return
    text = f"overwrites {view.full('optimizer.params.lr')}={rate:g}"
    yield Finding(
        path,
        text if written else f"is not written, so {view.scheduler_type} {text} with {peak:g}",
        hint=view.assign(path, rate),
        severity=Severity.WARNING,
    )
