"""Why the sizes of a plan are what they are: each beside another value of it, priced and weighed. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from zerocfg.memory.estimate import estimate
from zerocfg.plan import Plan, ZeroPlan
from zerocfg.planner.cost import cost_of
from zerocfg.planner.rates import Rates
from zerocfg.planner.space import TIGHT
from zerocfg.sizes import PERSISTENCE


@dataclass(frozen=True, kw_only=True, slots=True)
class Neighbour:
    """The plan with one choice made otherwise."""

    path: str
    """Of the config."""
    value: object
    """What the plan has."""
    other: object
    slower: float
    """Seconds a step of the neighbour over the plan's, less 1."""
    more_bytes: int
    """Peak of allocated memory, the neighbour's less the plan's."""


def neighbours(plan: Plan, rates: Rates) -> list[Neighbour]:
    """Of a plan whose model is described: communication and stage-3 choices, the costliest neighbour first."""
    seconds, peak = cost_of(plan, rates).seconds, estimate(plan).peak_allocated_bytes
    found = []
    for name, changes in _others(plan.zero):
        other = replace(plan, zero=replace(plan.zero, **changes))
        found.append(
            Neighbour(
                path=f"parallelism.{name}",
                value=_shown(plan.zero, name),
                other=changes[name],
                slower=cost_of(other, rates).seconds / seconds - 1,
                more_bytes=estimate(other).peak_allocated_bytes - peak,
            )
        )
    return sorted(found, key=lambda n: -n.slower)


def _shown(zero: ZeroPlan, name: str) -> object:
    return "the repeated block" if name == "leaf_module_classes" and zero.find_leaf_modules else getattr(zero, name)


def _others(zero: ZeroPlan) -> Iterator[tuple[str, dict[str, Any]]]:
    """(the choice, fields of the neighbour)."""
    if not zero.stage:
        return
    yield "overlap_comm", {"overlap_comm": not zero.overlap_comm}
    yield "reduce_bucket_size", {"reduce_bucket_size": max(1, zero.reduce_bucket_size // 10)}
    if zero.stage < 3:
        return
    yield "stage3_prefetch_bucket_size", {"stage3_prefetch_bucket_size": 0}
    persistent = 0 if zero.stage3_param_persistence_threshold else PERSISTENCE
    yield "stage3_param_persistence_threshold", {"stage3_param_persistence_threshold": persistent}
    tight = {"stage3_max_live_parameters": TIGHT, "stage3_max_reuse_distance": TIGHT, "memory_efficient_linear": True}
    if zero.stage3_max_live_parameters > TIGHT:
        yield "stage3_max_live_parameters", tight
    yield "memory_efficient_linear", {"memory_efficient_linear": not zero.memory_efficient_linear}
    if zero.find_leaf_modules or zero.leaf_module_classes:
        yield "leaf_module_classes", {"find_leaf_modules": False, "leaf_module_classes": ()}
