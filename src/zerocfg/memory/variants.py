"""Neighbours of a plan: what a user could change to make it fit, with the overrides that make the change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from zerocfg.plan import Plan
from zerocfg.sizes import keeps_weights, own_linear, shape_of, zero_sizes

LARGEST = 512
"""Micro batch that is tried in place of a larger one."""


@dataclass(frozen=True, slots=True)
class Variant:
    overrides: tuple[str, ...]
    """To paste after the command."""
    plan: Plan

    @property
    def cost(self) -> tuple[int, ...]:
        """Each number larger: slower, or more of a change."""
        plan = self.plan
        moved = (plan.offload.optimizer != "none") + (plan.offload.param != "none")
        return int(plan.activation_checkpointing.enabled), plan.zero.stage, moved, -plan.batch.micro_batch_size

    def exceeds(self, other: Variant) -> bool:
        """Gives up all that `other` gives up, and perhaps more."""
        return all(mine >= theirs for mine, theirs in zip(self.cost, other.cost, strict=True))


def variants(plan: Plan) -> Iterator[Variant]:
    """Changes in the order of what they cost in speed: smaller micro batch, recomputation, more sharding, offload."""
    start = Variant((), plan)
    recomputed = checkpointed(start)
    bases = [start, recomputed] if recomputed is not None else [start]
    stages = range(plan.zero.stage + 1, 4)
    for base in bases:
        yield from sizes(base)
    for base in bases:
        for stage in stages:
            yield from sizes(with_stage(base, stage))
    for base in bases:
        for stage in range(max(1, plan.zero.stage), 4):
            yield from sizes(offloaded(at_stage(base, stage), param=False))
        yield from sizes(offloaded(at_stage(base, 3), param=True))


def sizes(base: Variant) -> Iterator[Variant]:
    if base.overrides:
        yield base
    yield from smaller_micro_batches(base)


def at_stage(base: Variant, stage: int) -> Variant:
    return base if base.plan.zero.stage == stage else with_stage(base, stage)


def smaller_micro_batches(base: Variant) -> Iterator[Variant]:
    """The largest first. The global batch stays: accumulation takes up what the micro batch loses."""
    batch = base.plan.batch
    together = batch.micro_batch_size * batch.gradient_accumulation_steps
    for micro in range(min(batch.micro_batch_size - 1, LARGEST), 0, -1):
        if together % micro:
            continue
        steps = together // micro
        changed = replace(batch, micro_batch_size=micro, gradient_accumulation_steps=steps)
        overrides = (f"batch.micro_batch_size={micro}", f"batch.gradient_accumulation_steps={steps}")
        yield Variant((*base.overrides, *overrides), replace(base.plan, batch=changed))


def checkpointed(base: Variant) -> Variant | None:
    """With activation checkpointing; None when it is on already."""
    options = base.plan.activation_checkpointing
    if options.enabled:
        return None
    plan = replace(base.plan, activation_checkpointing=replace(options, enabled=True))
    return Variant((*base.overrides, "activation_checkpointing=full"), _followed(base.plan, plan))


def with_stage(base: Variant, stage: int) -> Variant:
    """At another ZeRO stage, its sizes as the compiler chooses them for the model."""
    plan = base.plan
    changed = replace(
        plan.zero,
        stage=stage,
        overlap_comm=stage >= 1,
        contiguous_gradients=stage >= 1,
        reduce_scatter=stage >= 1 and not (stage == 3 and plan.optimizer.type.lower() == "muon"),
        find_leaf_modules=stage == 3 and not plan.zero.leaf_module_classes and plan.topology.tensor_parallel_degree == 1,
    )
    plan = replace(plan, zero=changed)
    return Variant((*base.overrides, f"parallelism=zero{stage}"), replace(plan, zero=replace(changed, **_rule(plan))))


def offloaded(base: Variant, *, param: bool) -> Variant:
    """Optimizer, or all of it, in host memory."""
    changed = replace(base.plan.offload, optimizer="cpu", param="cpu" if param else "none", nvme_path="", ratio=1.0)
    plan = _followed(base.plan, replace(base.plan, offload=changed))
    return Variant((*base.overrides, "offload=all" if param else "offload=optimizer"), plan)


def _followed(before: Plan, after: Plan) -> Plan:
    """`after`, its sizes by the rule where those of `before` were."""
    asked = {name: value for name, value in _rule(before).items() if getattr(before.zero, name) != value}
    return replace(after, zero=replace(after.zero, **{name: value for name, value in _rule(after).items() if name not in asked}))


def _rule(plan: Plan) -> dict[str, Any]:
    """Field of ZeroPlan -> what the compiler chooses where nothing is asked for; nothing without a model."""
    zero = plan.zero
    shape = shape_of(plan.model, plan.profile.parameters if plan.profile is not None else None)
    if not shape.whole:
        return {}
    found, recomputes = zero.find_leaf_modules, plan.activation_checkpointing.enabled
    memory = plan.hardware.memory_bytes if plan.hardware.is_cuda and plan.offload.param == "none" else 0
    keep = found and keeps_weights(shape, memory, 4 if plan.precision.dtype == "fp32" else 2)
    by_block = found or (zero.stage == 3 and bool(zero.leaf_module_classes))
    sizes = {name: size.value for name, size in zero_sizes(shape, zero.stage, by_block=by_block, keep=keep).items()}
    own = found and own_linear(shape, sizes["stage3_max_live_parameters"], sizes["stage3_max_reuse_distance"], recomputes=recomputes)
    return {**sizes, "memory_efficient_linear": not own}
