"""Neighbours of a plan: what a user could change to make it fit, with the overrides that make the change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from zerocfg.plan import Plan

_BUCKET = 500_000_000
_LIVE = 1_000_000_000


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
    for micro in range(batch.micro_batch_size - 1, 0, -1):
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
    return Variant((*base.overrides, "activation_checkpointing=full"), plan)


def with_stage(base: Variant, stage: int) -> Variant:
    """At another ZeRO stage, its sizes as the compiler chooses them for the model (stage 3: hidden_size^2 and its like)."""
    plan, zero, model = base.plan, base.plan.zero, base.plan.model
    size = model.num_parameters if model else _BUCKET
    third = stage == 3 and model is not None
    hidden = model.hidden_size if model else 0
    changed = replace(
        zero,
        stage=stage,
        overlap_comm=stage >= 1,
        contiguous_gradients=stage >= 1,
        reduce_scatter=stage >= 1,
        reduce_bucket_size=min(size, hidden**2 if third else _BUCKET),
        stage3_prefetch_bucket_size=min(size, 9 * hidden**2 // 10) if third else 50_000_000,
        stage3_param_persistence_threshold=10 * hidden if third else 100_000,
        stage3_max_live_parameters=min(size, _LIVE),
        stage3_max_reuse_distance=min(size, _LIVE),
        sub_group_size=min(size, _LIVE),
    )
    return Variant((*base.overrides, f"parallelism=zero{stage}"), replace(plan, zero=changed))


def offloaded(base: Variant, *, param: bool) -> Variant:
    """Optimizer, or all of it, in host memory."""
    changed = replace(base.plan.offload, optimizer="cpu", param="cpu" if param else "none", nvme_path="", ratio=1.0)
    return Variant((*base.overrides, "offload=all" if param else "offload=optimizer"), replace(base.plan, offload=changed))
