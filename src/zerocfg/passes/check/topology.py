from __future__ import annotations

import math
from collections.abc import Iterator

from zerocfg.diagnostics import Diagnostic, Severity
from zerocfg.plan import Plan


def key_value_heads(plan: Plan, _: frozenset[str]) -> Iterator[Diagnostic]:
    """ZC213, ZC214: grouped-query heads against the degrees (ulysses_sp.py:149, engine.py:1046)."""
    if plan.model is None:
        return
    heads = plan.model.num_key_value_heads
    sp, tp = plan.topology.sequence_parallel_degree, plan.topology.tensor_parallel_degree
    if heads % sp and sp % heads:
        yield Diagnostic(
            code="ZC213",
            path="parallelism.sequence_parallel_degree",
            message=f"parallelism.sequence_parallel_degree={sp} and model.num_key_value_heads={heads}: neither is a multiple of the other",
            detail=(f"{heads} / {sp} = {heads / sp:.4g}",),
            hint=f"parallelism.sequence_parallel_degree={math.gcd(heads, sp)}",
        )
    if tp > heads:
        yield Diagnostic(
            code="ZC214",
            severity=Severity.WARNING,
            path="parallelism.tensor_parallel_degree",
            message=f"parallelism.tensor_parallel_degree={tp} is more than model.num_key_value_heads={heads}",
            detail=("ranks beyond the head count hold no part of the attention: it does not get faster past that point (engine.py:1046)",),
            hint=f"parallelism.tensor_parallel_degree={heads}",
        )


def nodes_without_network(plan: Plan, _: frozenset[str]) -> Iterator[Diagnostic]:
    """ZC215: several nodes, but the hardware option knows of no network between them."""
    hardware = plan.hardware
    if hardware.num_nodes > 1 and hardware.network == "none":
        yield Diagnostic(
            code="ZC215",
            severity=Severity.WARNING,
            path="hardware.network",
            message=f"hardware.num_nodes={hardware.num_nodes}, but hardware.network=none: nothing can be said about the link between nodes",
            hint="hardware.network=infiniband, roce, efa or tcp, and hardware.network_gbps=GB/s",
        )


CHECKS = (key_value_heads, nodes_without_network)
