"""What one micro batch asks of a GPU: FLOPs, bytes through its memory, operators. Pure counting, no rates."""

from __future__ import annotations

from dataclasses import dataclass

from zerocfg.memory.states import Rank

FORWARD_TRAFFIC = 0.4
"""Share of the memory traffic that the forward pass makes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """Of one micro batch on one rank. Recomputation counted where activation checkpointing is on."""

    matmul_flops: float
    attention_flops: float
    """Counted in full, causal or not."""
    traffic_bytes: float
    """Of everything that is no matrix product."""
    launches: float
    model_flops: float
    """6 N + 12 L h s a token, recomputation and what tensor-parallel ranks do twice not counted: what MFU is made of."""
    tokens: float
    recompute_share: float
    """Of the products, what recomputation adds."""


def work_of(rank: Rank) -> Work:
    """Work of one micro batch: what the trace has of a sample, the blocks' forward pass twice under activation checkpointing."""
    trace, n = rank.trace, rank.micro
    blocks, outside = trace.blocks, trace.outside
    flops = blocks.matmul_flops + blocks.attention_flops
    again = blocks.forward_flops / flops if flops and rank.plan.activation_checkpointing.enabled else 0.0
    once = flops + outside.matmul_flops + outside.attention_flops
    return Work(
        matmul_flops=n * (blocks.matmul_flops * (1 + again) + outside.matmul_flops),
        attention_flops=n * (blocks.attention_flops * (1 + again) + outside.attention_flops),
        traffic_bytes=n * (blocks.traffic_bytes * (1 + (FORWARD_TRAFFIC if again else 0.0)) + outside.traffic_bytes),
        launches=blocks.launches + outside.launches + (blocks.forward_launches if again else 0.0),
        model_flops=n * trace.tokens * trace.flops_per_token / rank.plan.topology.tensor_parallel_degree,
        tokens=float(n * trace.tokens),
        recompute_share=again * flops / (once + again * flops) if once else 0.0,
    )
