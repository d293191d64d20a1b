from __future__ import annotations

from collections.abc import Iterator

from zerocfg.diagnostics import Diagnostic, Severity
from zerocfg.plan import Plan
from zerocfg.schema.precision import PrecisionConfig

_FP16_ONLY = ("loss_scale", "initial_scale_power", "loss_scale_window", "hysteresis", "min_loss_scale")


def _capability(plan: Plan) -> str:
    return ".".join(map(str, plan.hardware.compute_capability))


def _sharded(plan: Plan) -> str:
    return f"parallelism=zero{max(1, plan.offload.least_stage)}"


def bf16_units(plan: Plan, _: frozenset[str]) -> Iterator[Diagnostic]:
    """ZC401: below compute capability 8.0 bf16 is emulated: accepted in silence, many times slower."""
    if plan.hardware.is_cuda and plan.precision.dtype == "bf16" and (0, 0) < plan.hardware.compute_capability < (8, 0):
        yield Diagnostic(
            code="ZC401",
            path="precision.dtype",
            message=f"precision.dtype=bf16 needs compute capability 8.0; {plan.hardware.gpu or 'this GPU'} has {_capability(plan)}",
            detail=("below 8.0 bf16 products are emulated: DeepSpeed accepts it, and it crawls",),
            hint="precision=fp16",
        )


def tf32_units(plan: Plan, _: frozenset[str]) -> Iterator[Diagnostic]:
    """ZC402: TF32 exists on compute capability 8.0 and above, for fp32 products."""
    if not plan.precision.tf32:
        return
    if not plan.hardware.is_cuda or (0, 0) < plan.hardware.compute_capability < (8, 0):
        where = f"{plan.hardware.gpu or 'this GPU'} has {_capability(plan)}" if plan.hardware.is_cuda else "this run is on cpu"
        yield Diagnostic(
            code="ZC402",
            path="precision.tf32",
            message=f"precision.tf32=true needs a GPU of compute capability 8.0; {where}",
            hint="precision.tf32=false",
        )
    elif plan.precision.dtype != "fp32":
        yield Diagnostic(
            code="ZC402",
            severity=Severity.WARNING,
            path="precision.tf32",
            message=f"precision.tf32=true speeds up fp32 products only; the model is {plan.precision.dtype}",
            hint="precision.tf32=false",
        )


def fp16_on_cpu(plan: Plan, _: frozenset[str]) -> Iterator[Diagnostic]:
    """ZC403: DeepSpeed refuses fp16 on processors without it (engine.py:2003)."""
    if plan.precision.dtype == "fp16" and not plan.hardware.is_cuda:
        yield Diagnostic(
            code="ZC403",
            severity=Severity.WARNING,
            path="precision.dtype",
            message="precision.dtype=fp16 works only on processors with fp16 arithmetic; DeepSpeed refuses it on others at start",
            hint="precision=bf16 or precision=fp32",
        )


def bf16_master(plan: Plan, _: frozenset[str]) -> Iterator[Diagnostic]:
    """ZC404, ZC405: bf16 master weights and states (config.py:706-714, base_optimizer.py:484-522)."""
    precision = plan.precision
    if precision.master_dtype == "fp32":
        return
    path = "precision.master_dtype"
    if precision.master_dtype == "fp16" or precision.dtype != "bf16":
        yield Diagnostic(
            code="ZC404",
            path=path,
            message=f"{path}={precision.master_dtype} works only as bf16 with precision.dtype=bf16, not with {precision.dtype}",
            hint=f"precision.master_dtype=fp32, or precision=bf16_lowmem{'' if plan.zero.stage else f' {_sharded(plan)}'}",
        )
    elif plan.zero.stage == 0:
        yield Diagnostic(
            code="ZC404",
            path=path,
            message="precision.master_dtype=bf16 needs ZeRO stage 1, 2 or 3, not stage 0",
            hint=f"{_sharded(plan)}, or precision.master_dtype=fp32",
        )
    elif plan.zero.stage == 1 and precision.grad_accum_dtype == "fp32" and plan.offload.optimizer != "cpu":
        yield Diagnostic(
            code="ZC404",
            path=path,
            message="precision.master_dtype=bf16 has no effect at stage 1 with precision.grad_accum_dtype=fp32: the copy stays fp32",
            detail=("DeepSpeed then takes its BF16_Optimizer, which does not read it (engine.py:2305)",),
            hint="precision.grad_accum_dtype=bf16, or parallelism=zero2",
        )
    if plan.offload.optimizer != "none" and not plan.optimizer.is_cpu_adam_offloaded:
        yield Diagnostic(
            code="ZC405",
            path=path,
            message=f"{path}=bf16 with an offloaded optimizer needs DeepSpeed's CPU Adam, not {plan.optimizer.described}",
            # on cpu no option of the group optimizer is DeepSpeed's Adam
            hint=f"{'optimizer=adamw, or ' if plan.hardware.is_cuda else ''}precision.master_dtype=fp32",
        )


def accumulation_dtype(plan: Plan, _: frozenset[str]) -> Iterator[Diagnostic]:
    """ZC406: stage 0 accumulates in the model's dtype only (engine.py:2323)."""
    precision = plan.precision
    if plan.zero.stage == 0 and precision.grad_accum_dtype != precision.dtype:
        yield Diagnostic(
            code="ZC406",
            path="precision.grad_accum_dtype",
            message=f"precision.grad_accum_dtype={precision.grad_accum_dtype} with dtype {precision.dtype} needs stage 1, 2 or 3, not 0",
            hint=f"{_sharded(plan)}, or precision.grad_accum_dtype=null",
        )


def loss_scale_without_fp16(plan: Plan, _: frozenset[str]) -> Iterator[Diagnostic]:
    """ZC407: read with fp16 only."""
    default = PrecisionConfig()
    if plan.precision.dtype == "fp16":
        return
    for name in _FP16_ONLY:
        value = getattr(plan.precision, name)
        if value != getattr(default, name):
            yield Diagnostic(
                code="ZC407",
                path=f"precision.{name}",
                message=f"precision.{name}={value} has no effect with dtype {plan.precision.dtype}: only fp16 scales the loss",
                hint=f"precision=fp16, or precision.{name}={getattr(default, name):g}, its default",
            )


def loss_scale_range(plan: Plan, _: frozenset[str]) -> Iterator[Diagnostic]:
    """ZC408 (precision_config.py:120-197)."""
    for name, least in (("loss_scale", 0), ("initial_scale_power", 0), ("loss_scale_window", 1), ("hysteresis", 1), ("min_loss_scale", 1)):
        value = getattr(plan.precision, name)
        if value < least:
            yield Diagnostic(
                code="ZC408",
                path=f"precision.{name}",
                message=f"precision.{name}={value} must be at least {least}",
                hint=f"precision.{name}={least}",
            )


CHECKS = (bf16_units, tf32_units, fp16_on_cpu, bf16_master, accumulation_dtype, loss_scale_without_fp16, loss_scale_range)
