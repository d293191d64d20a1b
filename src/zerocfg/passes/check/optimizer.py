from __future__ import annotations

from collections.abc import Iterator

from zerocfg.diagnostics import Diagnostic, Severity
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
            path="offload.optimizer",
            message=f"offload.optimizer={plan.offload.optimizer} cannot be used with Lamb: it has no CPU version",
            hint="optimizer=adamw, or offload=none",
        )
    if plan.precision.master_dtype == "bf16":
        yield Diagnostic(
            code="ZC320",
            path="precision.master_dtype",
            message="precision.master_dtype=bf16 fails at the first step with Lamb, which has no bf16 kernel",
            hint="precision.master_dtype=fp32",
        )
    if plan.zero.stage >= 1:
        yield Diagnostic(
            code="ZC320",
            severity=Severity.WARNING,
            path="optimizer.type",
            message=f"optimizer.type=Lamb at stage {plan.zero.stage} is not LAMB: one trust ratio a rank's flat shard, not one a layer",
            detail=("ZeRO hands the optimizer one flat tensor; DeepSpeed calls it untested (zero/utils.py:45)",),
            hint="optimizer=adamw" if plan.offload.optimizer != "none" else "parallelism=ddp, or optimizer=adamw",
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


def muon_under_one_rate(plan: Plan, _: frozenset[str]) -> Iterator[Diagnostic]:
    """ZC323: these schedules set one rate for every parameter group, and Muon has two (lr_schedules.py:313-840)."""
    params = plan.optimizer.params
    if plan.optimizer.type != "Muon" or plan.scheduler.type not in ("WarmupLR", "WarmupDecayLR", "OneCycle"):
        return
    rates = {name: params.get(name, params["lr"]) for name in ("muon_lr", "adam_lr")}
    if len(set(rates.values())) > 1:
        yield Diagnostic(
            code="ZC323",
            path="scheduler.type",
            message=f"scheduler.type={plan.scheduler.type} sets one rate for all parameters: optimizer.muon_lr and adam_lr would be lost",
            detail=(f"muon_lr = {rates['muon_lr']}, adam_lr = {rates['adam_lr']}",),
            hint="scheduler=warmup_cosine, which scales each rate, or optimizer.muon_lr=null optimizer.adam_lr=null",
        )


CHECKS = (lamb, fused_on_cpu, muon_at_stage_3, muon_under_one_rate)
