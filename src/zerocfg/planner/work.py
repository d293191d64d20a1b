"""What one micro batch asks of a GPU: FLOPs, bytes through its memory, kernels. Pure counting, no rates."""

from __future__ import annotations

from dataclasses import dataclass

from zerocfg.memory.activations import DTYPE_BYTES
from zerocfg.memory.states import Rank

NORM_PASSES = 24
"""Times that a normalization moves its tensor, forward and backward: 193 us for 8192 x 2048 at 4203 GB/s on H200 (the sums of the
weight's gradient included)."""
LOSS_BYTES_PER_LOGIT = 56
"""cross_entropy(logits.float()), forward and backward: 5.4 ms for 8192 x 50304 at 4203 GB/s on H200."""
BACKWARD_LAUNCHES = 2.2
"""Operators that the backward pass launches for one of the forward pass."""
FORWARD_TRAFFIC = 0.4
"""Share of the memory traffic below that the forward pass makes."""


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
    """6 N + 12 L h s a token, recomputation not counted: what MFU is made of."""
    tokens: float
    recompute_share: float
    """Of the products, what recomputation adds."""


def work_of(rank: Rank) -> Work:
    """Work of one micro batch. The plan's model must be described."""
    plan = rank.plan
    model = plan.model
    assert model is not None
    tp, sp = plan.topology.tensor_parallel_degree, plan.topology.sequence_parallel_degree
    b = DTYPE_BYTES[plan.precision.dtype]
    tokens = plan.batch.micro_batch_size * model.sequence_length / sp
    layers, h, f = model.num_hidden_layers, model.hidden_size, model.intermediate_size / tp
    q, kv = model.num_attention_heads * model.head_dim / tp, model.num_key_value_heads * model.head_dim / tp
    swiglu, rotary = model.mlp == "swiglu", model.positions == "rotary"

    blocks = 6 * layers * model.block_parameters / tp * tokens
    head = 6 * model.embedding_parameters * tokens
    attention = 12 * layers * q * model.sequence_length * tokens

    block = float(2 * NORM_PASSES * h + 12 * h)  # two norms; two residual sums and their gradients
    block += 14 * f if swiglu else 5 * f
    block += 20 * (q + kv) if rotary else 0  # eager rotation: products, sums and a concatenation, and their gradients
    block += q + 2 * kv + 2 * h + f if model.bias else 0  # sums of the biases' gradients
    traffic = layers * block * b * tokens
    outside = (NORM_PASSES + 6) * h * b * tokens + LOSS_BYTES_PER_LOGIT * model.vocab_size * tokens

    # projections, norms, attention, activation, residual sums, rotation of q and k
    forward = (7 if swiglu else 6) + 2 + 2 + (2 if swiglu else 1) + 2 + (14 if rotary else 0)
    launches = layers * forward * (1 + BACKWARD_LAUNCHES) + 40
    again = 0.0
    if plan.activation_checkpointing.enabled:
        again = blocks / 3 + attention / 3
        launches += layers * forward
        traffic *= 1 + FORWARD_TRAFFIC
    recomputed = 1 / 3 if plan.activation_checkpointing.enabled else 0.0
    return Work(
        matmul_flops=blocks * (1 + recomputed) + head,
        attention_flops=attention * (1 + recomputed),
        traffic_bytes=traffic + outside,
        launches=launches,
        model_flops=blocks + head + attention,
        tokens=tokens,
        recompute_share=again / (blocks + head + attention + again),
    )
