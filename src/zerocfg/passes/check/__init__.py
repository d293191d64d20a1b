"""Check passes: Plan -> Diagnostics. Rules across sections, above all those that DeepSpeed accepts in silence.

A new rule is one function in one of these modules, in its CHECKS, with its code in `zerocfg.codes`.
"""

from __future__ import annotations

from collections.abc import Iterator

from zerocfg.diagnostics import Diagnostic
from zerocfg.passes.check import activation_checkpointing, checkpoint, offload, optimizer, precision, topology, zero
from zerocfg.plan import Plan

ALL = (
    *topology.CHECKS,
    *zero.CHECKS,
    *offload.CHECKS,
    *activation_checkpointing.CHECKS,
    *precision.CHECKS,
    *optimizer.CHECKS,
    *checkpoint.CHECKS,
)


def check_plan(plan: Plan, asked: frozenset[str] = frozenset()) -> Iterator[Diagnostic]:
    """Every problem of a plan. `asked`: section.field of values that stand as the user wrote them, as opposed to derived."""
    for check in ALL:
        yield from check(plan, asked)
