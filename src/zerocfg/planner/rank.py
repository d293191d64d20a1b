"""Search: every candidate resolved, checked and priced; the feasible ones in order of predicted speed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from zerocfg.compiler import as_written, resolve
from zerocfg.diagnostics import Diagnostic, Severity, has_errors
from zerocfg.facts import Detected
from zerocfg.memory.check import check_memory, check_profile
from zerocfg.memory.estimate import MemoryEstimate, estimate
from zerocfg.passes.check import check_plan
from zerocfg.plan import Plan
from zerocfg.planner.cost import Cost, cost_of
from zerocfg.planner.rates import Rates, rates_of
from zerocfg.planner.space import LARGEST_MICRO_BATCH, MICRO_BATCHES, Axes, Candidate, candidates, changed
from zerocfg.schema import RunConfig
from zerocfg.sizes import shape_of

NO_DIFFERENCE = 0.99
"""Speeds that predictions cannot tell apart."""
NO_OFFLOAD = 0.9
"""Share of the fastest's speed with which a plan that offloads less comes first: what offloading costs hangs on the host's cores
and memory, which no data sheet has."""
NO_GAIN = 0.995
"""A size is only changed for more than this in speed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranked:
    """One feasible plan."""

    overrides: tuple[str, ...]
    """To paste after the command."""
    changes: Mapping[str, Any]
    """The same as config path -> value."""
    plan: Plan
    cost: Cost
    memory: MemoryEstimate
    mfu: float
    """Share of the data sheet's dense peak that goes into 6 N + 12 L h s FLOPs a token; 0 when the peak is unknown."""

    @property
    def tokens_per_s_per_gpu(self) -> float:
        return self.cost.tokens_per_s_per_gpu(self.plan.topology.tensor_parallel_degree)

    @property
    def limiting(self) -> str:
        return self.cost.limiting

    def as_dict(self) -> dict[str, Any]:
        """An entry of `zerocfg plan --json`."""
        cost = self.cost
        return {
            "overrides": list(self.overrides),
            "tokens_per_s_per_gpu": self.tokens_per_s_per_gpu,
            "mfu": self.mfu,
            "seconds_per_step": cost.seconds,
            "peak_allocated_bytes": self.memory.peak_allocated_bytes,
            "host_bytes_per_node": self.memory.host_bytes_per_node,
            "limiting": self.limiting,
            "seconds": {
                "compute": cost.compute,
                "host": cost.host,
                "communication": cost.communication,
                "optimizer": cost.optimizer,
                "offload": cost.offload,
            },
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Search:
    ranked: list[Ranked]
    """The fastest first."""
    tried: int
    """Plans looked at, micro batches counted."""
    too_large: list[Diagnostic]
    """Where nothing fits: why the smallest plan does not."""
    problems: list[Diagnostic]
    """Where nothing resolves: what is wrong with the config itself."""
    rates: Rates
    beyond_target: bool = False
    """Nothing stays within hardware.memory_target; these fit the card all the same."""


@dataclass(frozen=True, slots=True)
class _Sized:
    candidate: Candidate
    plan: Plan
    memory: MemoryEstimate


def search(
    config: RunConfig, detected: Detected | None, axes: Axes, *, torch: str = "", calibration: Mapping[str, Any] | None = None
) -> Search:
    """Compare every plan that `axes` allows. The model must be described or profiled.

    calibration: what `zerocfg calibrate` wrote for this hardware.
    """
    first = resolve(config, detected, torch)[0]
    hardware, rates = first.hardware, rates_of(first.hardware, calibration)
    shape = shape_of(first.model, first.profile.parameters if first.profile is not None else None)
    found: dict[bool, list[Ranked]] = {True: [], False: []}
    smallest: _Sized | None = None
    first_problems: list[Diagnostic] | None = None
    tried = 0
    for candidate in candidates(config, hardware, axes, shape):
        plan, problems = _resolved(config, candidate, detected, axes, torch)
        if plan is None:
            first_problems = first_problems if first_problems is not None else problems
            continue
        # without memory for a micro batch of one, larger ones have none either
        sizes = micro_batches(config, plan, axes)
        tried += len(sizes)
        least = _Sized(candidate, plan, estimate(with_micro_batch(plan, sizes[0])))
        if smallest is None or least.memory.needed_bytes < smallest.memory.needed_bytes:
            smallest = _Sized(candidate, with_micro_batch(plan, sizes[0]), least.memory)
        if not _host_fits(least):
            continue
        for within in (True, False):
            largest = _largest_that_fits(plan, sizes, within)
            if largest < 0:
                continue
            found[within].append(_best(candidate, plan, sizes[: largest + 1], rates, axes))
            break
    ranked = _without_idle_changes(found[True] or found[False])
    ranked.sort(key=_speed_then_effort)
    ranked = _steadiest_first(ranked)
    too_large = [] if ranked or smallest is None else _why_nothing_fits(smallest, tried)
    return Search(
        ranked=ranked,
        tried=tried,
        too_large=too_large,
        problems=[] if smallest is not None else (first_problems or []),
        rates=rates,
        beyond_target=bool(ranked) and not found[True],
    )


def _why_nothing_fits(smallest: _Sized, tried: int) -> list[Diagnostic]:
    """ZC501, ZC502 of the plan that takes the least of a GPU."""
    overrides = " ".join(smallest.candidate.overrides)
    which = (f"of {tried} plans compared that is the one that takes the least of a GPU: {overrides}",) if overrides else ()
    errors = [d for d in check_memory(smallest.plan) if d.severity is Severity.ERROR]
    return [replace(d, detail=(*which, *d.detail)) for d in errors[:1]] + errors[1:]


def _resolved(
    config: RunConfig, candidate: Candidate, detected: Detected | None, axes: Axes, torch: str
) -> tuple[Plan | None, list[Diagnostic]]:
    """The candidate's plan at its smallest micro batch, when no check refuses it."""
    changes = dict(candidate.changes)
    if axes.micro_batch:
        changes["batch.micro_batch_size"] = None
    plan, reasons, problems = resolve(changed(config, changes), detected, torch)
    problems = [*problems, *check_plan(plan, as_written(reasons)), *check_profile(plan)]
    return (None, problems) if has_errors(problems) or not plan.is_described else (plan, problems)


def micro_batches(config: RunConfig, plan: Plan, axes: Axes) -> Sequence[int]:
    """Sizes to try, the smallest first."""
    batch = plan.batch
    if not axes.micro_batch or (config.batch.global_batch_size is not None and config.batch.gradient_accumulation_steps is not None):
        return (batch.micro_batch_size,)
    if config.batch.global_batch_size is not None:
        whole = batch.global_batch_size // batch.data_parallel_size
        return tuple(n for n in range(1, min(whole, LARGEST_MICRO_BATCH) + 1) if whole % n == 0)
    return tuple(range(1, MICRO_BATCHES[-1] + 1)) if axes.micro_batch_only else MICRO_BATCHES


def with_micro_batch(plan: Plan, size: int) -> Plan:
    """The same global batch where the accumulation can take it up, else the same accumulation."""
    batch = plan.batch
    together = batch.micro_batch_size * batch.gradient_accumulation_steps
    steps = together // size if together % size == 0 and together > 1 else batch.gradient_accumulation_steps
    total = size * steps * batch.data_parallel_size
    return replace(plan, batch=replace(batch, micro_batch_size=size, gradient_accumulation_steps=steps, global_batch_size=total))


def _largest_that_fits(plan: Plan, sizes: Sequence[int], within: bool) -> int:
    """Index of the largest micro batch that fits, -1 for none. Memory grows with the micro batch, so halving finds it."""

    def fits(index: int) -> bool:
        memory = estimate(with_micro_batch(plan, sizes[index]))
        return memory.within(plan.hardware.memory_target) if within else memory.fits

    low, high = -1, len(sizes)
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low


def _speed_then_effort(found: Ranked) -> tuple[float, ...]:
    """The fastest first; of two that are as fast, the one that moves and recomputes less."""
    moved, recomputes = _effort(found)
    speed = float(f"{found.tokens_per_s_per_gpu:.3g}")
    return -speed, moved, recomputes, -found.tokens_per_s_per_gpu, found.memory.peak_allocated_bytes


def _steadiest_first(ranked: list[Ranked]) -> list[Ranked]:
    """Of the plans that are as fast as the fastest, as far as predictions go, and move and recompute no more: the lowest stage's first.
    It asks the least of the host, which differs by half from machine to machine."""
    if not ranked:
        return ranked
    fastest = ranked[0]

    def close_to_it(found: Ranked) -> bool:
        offloads_less = _effort(found)[0] < _effort(fastest)[0]
        least = NO_OFFLOAD if offloads_less else NO_DIFFERENCE
        return found.tokens_per_s_per_gpu >= least * fastest.tokens_per_s_per_gpu and _effort(found) <= _effort(fastest)

    close = [r for r in ranked if close_to_it(r)]
    first = min(close, key=lambda r: (_effort(r), max(1, r.plan.zero.stage), -r.tokens_per_s_per_gpu))
    return [first, *(r for r in ranked if r is not first)]


def _effort(found: Ranked) -> tuple[int, bool]:
    plan = found.plan
    return (plan.offload.param != "none") + (plan.offload.optimizer != "none"), plan.activation_checkpointing.enabled


def why_first(ranked: Sequence[Ranked]) -> str:
    """Where the first is not the one that is predicted to be the fastest; else empty."""
    first, fastest = ranked[0], max(ranked, key=lambda r: r.tokens_per_s_per_gpu)
    gain = fastest.tokens_per_s_per_gpu / first.tokens_per_s_per_gpu - 1
    if _effort(first)[0] < _effort(fastest)[0]:
        return f"{gain:.1%} slower than the fastest, but it offloads less, which leaves less to the host's cores and memory"
    if first.plan.zero.stage < fastest.plan.zero.stage and gain > 0:
        return f"{gain:.1%} slower than the fastest, which predictions cannot tell apart, and the lower stage asks less of the host"
    return ""


def _without_idle_changes(ranked: list[Ranked]) -> list[Ranked]:
    """Of plans that differ in sizes alone the fastest, and the one with the fewest changes unless the others gain."""
    kinds: dict[tuple[object, ...], list[Ranked]] = {}
    for found in ranked:
        plan = found.plan
        kind = (plan.zero.stage, plan.offload.optimizer, plan.offload.param, plan.activation_checkpointing.enabled)
        kinds.setdefault(kind, []).append(found)
    kept = []
    for same in kinds.values():
        best = max(same, key=lambda r: r.tokens_per_s_per_gpu)
        close = [r for r in same if r.tokens_per_s_per_gpu >= NO_GAIN * best.tokens_per_s_per_gpu]
        kept.append(min(close, key=lambda r: (len(r.overrides), -r.tokens_per_s_per_gpu)))
    return kept


def _host_fits(sized: _Sized) -> bool:
    return not 0 < sized.plan.hardware.host_memory_bytes < sized.memory.host_bytes_per_node


def _best(candidate: Candidate, plan: Plan, sizes: Sequence[int], rates: Rates, axes: Axes) -> Ranked:
    """The fastest micro batch of those that fit; alone, the largest."""
    options = sizes[-1:] if axes.micro_batch_only else sizes
    priced = [(cost_of(sized, rates), sized) for sized in (with_micro_batch(plan, size) for size in options)]
    cost, chosen = max(priced, key=lambda pair: pair[0].tokens_per_s_per_gpu())
    batch = chosen.batch
    overrides = candidate.overrides
    changes = dict(candidate.changes)
    if axes.micro_batch:
        overrides += (
            f"batch.micro_batch_size={batch.micro_batch_size}",
            f"batch.gradient_accumulation_steps={batch.gradient_accumulation_steps}",
        )
        changes |= {
            "batch.micro_batch_size": batch.micro_batch_size,
            "batch.gradient_accumulation_steps": batch.gradient_accumulation_steps,
        }
    dtype = "tf32" if chosen.precision.tf32 and chosen.precision.dtype == "fp32" else chosen.precision.dtype
    return Ranked(
        overrides=overrides,
        changes=changes,
        plan=chosen,
        cost=cost,
        memory=estimate(chosen),
        mfu=cost.mfu(rates.peak_tflops[dtype]) if plan.hardware.is_cuda else 0.0,
    )
