"""Clipping, averaging and accumulating gradients; defaults that moved."""

from __future__ import annotations

from collections.abc import Iterator

from zerocfg.deepspeed import keys
from zerocfg.deepspeed.check_precision import dtype_of
from zerocfg.deepspeed.rules import Finding, rule
from zerocfg.deepspeed.view import OPT, View, shown
from zerocfg.diagnostics import Severity

CLIPPING = "gradient_clipping"
MOVED = ("bf16.check_grad_overflow", f"{OPT}.pin_memory", "zero_optimization.offload_param.pin_memory")
"""Defaults that moved without changing what is computed."""


@rule("ZC671", "a value left to a default that a recent release changed")
def moved_default(view: View) -> Iterator[Finding]:
    if not view.has(CLIPPING):
        yield _moved(view, CLIPPING, Severity.WARNING)
    for path in MOVED:
        key = keys.lookup(path)
        if key is not None and not view.has(path) and view.stage in key.stages and not view.unmet(key.needs):
            yield _moved(view, path, Severity.NOTE)


def _moved(view: View, path: str, severity: Severity) -> Finding:
    key = keys.lookup(path)
    release, old, new = key.changed if key is not None and key.changed is not None else ("", None, None)
    return Finding(
        path,
        f"is not written: DeepSpeed {release} and later use {shown(new)}, earlier ones {shown(old)}",
        hint=view.assign(path, new),
        severity=severity,
    )


@rule("ZC672", "summed gradients where DeepSpeed only averages")
def summed_gradients(view: View) -> Iterator[Finding]:
    path = "gradient_allreduce_op"
    if view.value(path) != "sum":
        return
    hint = view.assign(path, "mean")
    if view.stage == 3:
        yield Finding(path, "is refused at ZeRO stage 3", hint=hint)
    if view.zenflow:
        yield Finding(path, "is refused with ZenFlow", hint=hint)
    if view.on("compile.deepcompile"):
        yield Finding(path, "is refused with DeepCompile", hint=hint)


@rule("ZC673", "gradients divided before a reduce-scatter that does not support it")
def divided_before(view: View) -> Iterator[Finding]:
    if view.stage not in (2, 3) or not view.on("zero_optimization.reduce_scatter"):
        return
    if view.stage == 2 and view.value("gradient_allreduce_op") == "sum":
        return
    scatter = view.assign("zero_optimization.reduce_scatter", False)
    if view.on("prescale_gradients"):
        yield Finding(
            "prescale_gradients",
            f"makes the engine raise at ZeRO stage {view.stage} with reduce_scatter",
            hint=f"{view.assign('prescale_gradients', False)}, or {scatter}",
        )
    if view.number("gradient_predivide_factor") != 1:
        yield Finding(
            "gradient_predivide_factor",
            f"makes the engine raise at ZeRO stage {view.stage} with reduce_scatter",
            hint=f"{view.assign('gradient_predivide_factor', 1.0)}, or {scatter}",
        )


@rule("ZC674", "compute_grad_norm=false where something needs the norm")
def no_gradient_norm(view: View) -> Iterator[Finding]:
    path = "zero_optimization.compute_grad_norm"
    if view.on(path):
        return
    back = view.assign(path, True)
    if view.stage not in (1, 2):
        yield Finding(path, f"is refused at ZeRO stage {view.stage}: only 1 and 2 know it", hint=back)
        return
    if view.number(CLIPPING) > 0:
        written = "" if view.has(CLIPPING) else " (1.0 unless written)"
        text = f"needs {view.full(CLIPPING)}=0{written}"
        yield Finding(path, text, hint=f"{view.assign(CLIPPING, 0.0)}, or {back}")
    if view.zenflow:
        yield Finding(path, "does not go with ZenFlow", hint=back)
    if view.optimizer_device != "none":
        yield Finding(path, "does not go with optimizer offload", hint=f"{view.assign(f'{OPT}.device', 'none')}, or {back}")
    if view.stage == 1 and view.bf16 and dtype_of(view.value("data_types.grad_accum_dtype")) == "fp32" and view.optimizer_device != "cpu":
        yield Finding(path, "does not go with stage 1, bfloat16 and fp32 accumulation", hint=back)


@rule("ZC676", "managed_gradient_accumulation=false with something that needs DeepSpeed to manage it")
def own_accumulation(view: View) -> Iterator[Finding]:
    path = "managed_gradient_accumulation"
    if view.on(path):
        return
    if view.overlap_comm and view.stage < 2:
        text = f"does not go with overlap_comm at ZeRO stage {view.stage}"
        yield Finding(path, text, hint=f"{view.assign('zero_optimization.overlap_comm', False)}, or {view.assign(path, True)}")
    if view.on("compile.deepcompile"):
        yield Finding(
            path, "does not go with DeepCompile", hint=f"{view.assign('compile.deepcompile', False)}, or {view.assign(path, True)}"
        )
