from __future__ import annotations

from collections.abc import Iterator

from zerocfg.diagnostics import Diagnostic, Severity
from zerocfg.plan import Plan
from zerocfg.units import counted

_NVME = {
    "param": ("param_buffer_count", "param_buffer_size", "param_max_in_cpu"),
    "optimizer": ("optimizer_buffer_count", "pipeline_read", "pipeline_write"),
}


def _to_nvme(plan: Plan, kind: str) -> str:
    """What offloads the optimizer, or the parameters too, to NVMe."""
    path = "" if plan.offload.nvme_path else " offload.nvme_path=/local_nvme"
    option = "all_nvme" if kind == "param" or plan.offload.param != "none" else "optimizer_nvme"
    return f"offload={option}{path}" + ("" if plan.zero.stage == 3 else " parallelism=zero3")


def parameters_need_stage_3(plan: Plan, _: frozenset[str]) -> Iterator[Diagnostic]:
    """ZC302 (engine.py:2773 hands offload_param to stage 3 only)."""
    if plan.offload.param != "none" and plan.zero.stage != 3:
        yield Diagnostic(
            code="ZC302",
            path="offload.param",
            message=f"offload.param={plan.offload.param} has no effect at stage {plan.zero.stage}: only stage 3 shards parameters",
            hint="parallelism=zero3, or "
            + ("offload=optimizer" if plan.offload.optimizer == "cpu" and plan.zero.stage else "offload.param=none"),
        )


def optimizer_needs_sharding(plan: Plan, _: frozenset[str]) -> Iterator[Diagnostic]:
    """ZC304: at stage 0 CPU Adam meets GPU weights at the first step (ops/adam/cpu_adam.py:148)."""
    if plan.offload.optimizer != "none" and plan.zero.stage == 0:
        yield Diagnostic(
            code="ZC304",
            path="offload.optimizer",
            message=f"offload.optimizer={plan.offload.optimizer} needs ZeRO stage 1, 2 or 3; at stage 0 the first step fails",
            hint=f"parallelism=zero{plan.offload.least_stage}, or offload=none",
        )


def nvme_needs_stage_3(plan: Plan, _: frozenset[str]) -> Iterator[Diagnostic]:
    """ZC303: stages 1 and 2 take any device other than none for cpu (stage_1_and_2.py:220)."""
    if plan.offload.optimizer == "nvme" and plan.zero.stage in (1, 2):
        yield Diagnostic(
            code="ZC303",
            path="offload.optimizer",
            message=f"offload.optimizer=nvme at stage {plan.zero.stage} would use host memory in silence: only stage 3 swaps to NVMe",
            hint="parallelism=zero3, or offload=optimizer",
        )


def nvme_needs_a_path(plan: Plan, _: frozenset[str]) -> Iterator[Diagnostic]:
    """ZC305 (stage3.py:840, partition_parameters.py:1230)."""
    offload = plan.offload
    if "nvme" in (offload.optimizer, offload.param):
        if not offload.nvme_path:
            yield Diagnostic(
                code="ZC305",
                path="offload.nvme_path",
                message="offload to nvme needs offload.nvme_path",
                hint="offload.nvme_path=/local_nvme",
            )
    elif offload.nvme_path:
        yield Diagnostic(
            code="ZC305",
            severity=Severity.WARNING,
            path="offload.nvme_path",
            message=f"offload.nvme_path={offload.nvme_path} is not used: nothing is offloaded to nvme",
            hint=f"offload.nvme_path=null, or {_to_nvme(plan, 'optimizer')}",
        )


def partial_offload(plan: Plan, _: frozenset[str]) -> Iterator[Diagnostic]:
    """ZC308 (zero/config.py:396, stage3.py:316)."""
    ratio = plan.offload.ratio
    if not 0 <= ratio <= 1:
        yield Diagnostic(
            code="ZC308", path="offload.ratio", message=f"offload.ratio={ratio} is not between 0 and 1", hint="offload.ratio=1.0"
        )
    elif ratio < 1:
        wants = []
        if plan.zero.stage != 3:
            wants.append(("needs stage 3, not stage " + str(plan.zero.stage), "parallelism=zero3"))
        if plan.offload.optimizer == "none":
            wants.append(("has no effect: the optimizer is not offloaded", "offload=optimizer"))
        if not plan.optimizer.is_cpu_adam_offloaded:
            wants.append((f"works with DeepSpeed's CPU Adam only, not with {plan.optimizer.described}", "optimizer=adamw"))
        # on cpu no option of the group optimizer is DeepSpeed's Adam
        together = " ".join(change for _, change in wants) if plan.hardware.is_cuda or plan.optimizer.is_cpu_adam_offloaded else ""
        if wants:
            yield Diagnostic(
                code="ZC308",
                path="offload.ratio",
                message=f"offload.ratio={ratio} {wants[0][0]}",
                detail=tuple(f"it also {want}" for want, _ in wants[1:]),
                hint=(f"{together}, or " if together else "") + "offload.ratio=1.0",
            )


def nvme_buffer_size(plan: Plan, _: frozenset[str]) -> Iterator[Diagnostic]:
    """ZC316: a buffer must hold the shard of the largest parameter (partitioned_param_swapper.py:357)."""
    if plan.offload.param != "nvme" or plan.model is None:
        return
    shards, size = plan.topology.param_shards, plan.offload.param_buffer_size
    largest = plan.model.largest_shard(shards)
    if size < largest:
        yield Diagnostic(
            code="ZC316",
            path="offload.param_buffer_size",
            message=f"offload.param_buffer_size={size} is smaller than a rank's shard of the largest parameter, {largest} elements",
            detail=(f"{plan.model.largest_parameter} elements / {counted(shards, 'rank')}, rounded up = {largest}",),
            hint=f"offload.param_buffer_size={largest}",
        )


def nvme_counts(plan: Plan, asked: frozenset[str]) -> Iterator[Diagnostic]:
    """ZC317: no buffer, or a value of nvme offload where nothing goes to nvme."""
    for kind, names in _NVME.items():
        device = getattr(plan.offload, kind)
        for name in names:
            value, path, least = getattr(plan.offload, name), f"offload.{name}", 0 if name == "param_max_in_cpu" else 1
            too_small = not isinstance(value, bool) and value < least
            set_by_user = value if isinstance(value, bool) else f"offload.{name}" in asked
            if device == "nvme" and too_small:
                message = f"{path}={value} must be at least {least}"
                yield Diagnostic(code="ZC317", path=path, message=message, hint=f"{path}={max(least, 4)}")
            elif device != "nvme" and set_by_user:
                off = f"{path}={'false' if isinstance(value, bool) else 'null'}"
                yield Diagnostic(
                    code="ZC317",
                    path=path,
                    message=f"{path}={value} has no effect: offload.{kind}={device}, not nvme",
                    hint=off if too_small else f"{off}, or {_to_nvme(plan, kind)}",
                )


def offload_on_cpu(plan: Plan, _: frozenset[str]) -> Iterator[Diagnostic]:
    """ZC314: nothing is gained where the accelerator's memory is host memory. Lion runs there only as an offloaded optimizer."""
    for name in ("optimizer", "param"):
        needed = name == "optimizer" and plan.optimizer.type == "Lion"
        if getattr(plan.offload, name) != "none" and not plan.hardware.is_cuda and not needed:
            yield Diagnostic(
                code="ZC314",
                severity=Severity.WARNING,
                path=f"offload.{name}",
                message=f"offload.{name}={getattr(plan.offload, name)} gains nothing on cpu: it is host memory already",
                hint="offload=none",
            )


CHECKS = (
    parameters_need_stage_3,
    optimizer_needs_sharding,
    nvme_needs_stage_3,
    nvme_needs_a_path,
    partial_offload,
    nvme_buffer_size,
    nvme_counts,
    offload_on_cpu,
)
