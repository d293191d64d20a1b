from __future__ import annotations

from collections.abc import Iterator

from zerocfg.diagnostics import Diagnostic
from zerocfg.plan import Plan


def lamb(plan: Plan, _: frozenset[str]) -> Iterator[Diagnostic]:
    """ZC320 (engine.py:2021; FusedLamb has no CPU version)."""
    if plan.optimizer.type != "Lamb":
        return
    if plan.precision.dtype == "fp16" and plan.precision.loss_scale != 0:
        yield Diagnostic(
            code="ZC320",
            path="precision.loss_scale",
            message=f"optimizer.type=Lamb needs dynamic loss scaling, not precision.loss_scale={plan.precision.loss_scale}",
            hint="precision.loss_scale=0",
        )
    if plan.offload.optimizer != "none":
        yield Diagnostic(
            code="ZC320",
            path="optimizer.type",
            message="optimizer.type=Lamb cannot be offloaded: it has no CPU version",
            hint="optimizer=adamw, or offload=none",
        )


def fused_on_cpu(plan: Plan, _: frozenset[str]) -> Iterator[Diagnostic]:
    """ZC321: these are CUDA kernels; DeepSpeed has no CPU version of them on the cpu accelerator."""
    if plan.hardware.is_cuda or (plan.optimizer.type == "Lion" and plan.offload.optimizer != "none"):
        return
    if plan.optimizer.type in ("Lamb", "Lion"):
        yield Diagnostic(
            code="ZC321",
            path="optimizer.type",
            message=f"optimizer.type={plan.optimizer.type} needs cuda: it is a CUDA kernel",
            hint="optimizer=adamw",
        )


def muon_at_stage_3(plan: Plan, _: frozenset[str]) -> Iterator[Diagnostic]:
    """ZC322 (stage3.py:360-362)."""
    if plan.optimizer.type != "Muon" or plan.zero.stage != 3:
        return
    for name in ("reduce_scatter", "zero_quantized_gradients"):
        if getattr(plan.zero, name):
            path = f"parallelism.{name}"
            yield Diagnostic(code="ZC322", path=path, message=f"{path}=true cannot be used with Muon at stage 3", hint=f"{path}=false")


CHECKS = (lamb, fused_on_cpu, muon_at_stage_3)
