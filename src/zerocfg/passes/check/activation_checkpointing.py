from __future__ import annotations

from collections.abc import Iterator

from zerocfg.diagnostics import Diagnostic, Severity
from zerocfg.plan import Plan

_OPTIONS = ("partition_activations", "cpu_checkpointing", "contiguous_memory_optimization", "synchronize_checkpoint_boundary", "profile")


def contiguous_needs(plan: Plan, _: frozenset[str]) -> Iterator[Diagnostic]:
    """ZC312 (activation_checkpointing/checkpointing.py:1229-1231)."""
    section = plan.activation_checkpointing
    if section.enabled and section.contiguous_memory_optimization:
        needs = {"partition_activations=true": section.partition_activations, "number_checkpoints=N": section.number_checkpoints > 0}
        for need, met in needs.items():
            if not met:
                yield Diagnostic(
                    code="ZC312",
                    path="activation_checkpointing.contiguous_memory_optimization",
                    message=f"activation_checkpointing.contiguous_memory_optimization=true needs activation_checkpointing.{need}",
                    hint=f"activation_checkpointing.{need}",
                )


def partition_needs_tensor_parallel(plan: Plan, _: frozenset[str]) -> Iterator[Diagnostic]:
    """ZC313: activations are split over the model-parallel group."""
    section = plan.activation_checkpointing
    if section.enabled and section.partition_activations and plan.topology.tensor_parallel_degree == 1:
        yield Diagnostic(
            code="ZC313",
            severity=Severity.WARNING,
            path="activation_checkpointing.partition_activations",
            message="activation_checkpointing.partition_activations=true has no effect: it splits over tensor-parallel ranks",
            detail=("parallelism.tensor_parallel_degree=1",),
            hint="activation_checkpointing.partition_activations=false",
        )


def options_need_enabled(plan: Plan, asked: frozenset[str]) -> Iterator[Diagnostic]:
    """ZC315: an option of a feature that is off. number_checkpoints counts for contiguous memory only (checkpointing.py:409)."""
    section = plan.activation_checkpointing
    number, path = section.number_checkpoints, "activation_checkpointing.number_checkpoints"
    if number and path in asked and not (section.enabled and section.contiguous_memory_optimization):
        yield Diagnostic(
            code="ZC315",
            path=path,
            message=f"{path}={number} has no effect without contiguous_memory_optimization=true",
            hint=f"{path}=null",
        )
    for name in _OPTIONS:
        if getattr(section, name) and not section.enabled:
            off = f"activation_checkpointing.{name}=false"
            yield Diagnostic(
                code="ZC315",
                path=f"activation_checkpointing.{name}",
                message=f"activation_checkpointing.{name}=true has no effect: activation checkpointing is off",
                # contiguous memory needs more than that
                hint=off if name.startswith("contiguous") else f"activation_checkpointing.enabled=true, or {off}",
            )


CHECKS = (contiguous_needs, partition_needs_tensor_parallel, options_need_enabled)
