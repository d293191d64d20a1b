"""What train.py's GPT asks of a GPU, from its dims: FLOPs, bytes through its memory, operators. Pure counting, no rates."""

from __future__ import annotations

from zerocfg.facts import ModelFacts
from zerocfg.traced import Operations

NORM_PASSES = 24
"""Times that a normalization moves its tensor, forward and backward: 193 us for 8192 x 2048 at 4203 GB/s on H200 (the sums of the
weight's gradient included)."""
LOSS_BYTES_PER_LOGIT = 56
"""cross_entropy(logits.float()), forward and backward: 5.4 ms for 8192 x 50304 at 4203 GB/s on H200."""
BACKWARD_LAUNCHES = 2.2
"""Operators that the backward pass launches for one of the forward pass."""
OUTSIDE_LAUNCHES = 40


def operations(model: ModelFacts, width: int, *, tensor_parallel_degree: int = 1, sequence_parallel_degree: int = 1) -> list[Operations]:
    """[of all blocks, of what is around them], of one sample on one rank. width: bytes an element."""
    tp = tensor_parallel_degree
    tokens = model.sequence_length / sequence_parallel_degree
    layers, h, f = model.num_hidden_layers, model.hidden_size, model.intermediate_size / tp
    q, kv = model.num_attention_heads * model.head_dim / tp, model.num_key_value_heads * model.head_dim / tp
    swiglu, rotary = model.mlp == "swiglu", model.positions == "rotary"

    matmul = 6 * layers * model.block_parameters / tp * tokens
    attention = 12 * layers * q * model.sequence_length * tokens
    head = 6 * model.embedding_parameters * tokens

    block = float(2 * NORM_PASSES * h + 12 * h)  # two norms; two residual sums and their gradients
    block += 14 * f if swiglu else 5 * f
    block += 20 * (q + kv) if rotary else 0  # eager rotation: products, sums and a concatenation, and their gradients
    block += q + 2 * kv + 2 * h + f if model.bias else 0  # sums of the biases' gradients

    # projections, norms, attention, activation, residual sums, rotation of q and k
    forward = layers * ((7 if swiglu else 6) + 2 + 2 + (2 if swiglu else 1) + 2 + (14 if rotary else 0))
    return [
        Operations(
            matmul_flops=matmul,
            attention_flops=attention,
            traffic_bytes=layers * block * width * tokens,
            launches=forward * (1 + BACKWARD_LAUNCHES),
            forward_flops=(matmul + attention) / 3,
            forward_launches=forward,
        ),
        Operations(
            matmul_flops=head,
            traffic_bytes=((NORM_PASSES + 6) * h * width + LOSS_BYTES_PER_LOGIT * model.vocab_size) * tokens,
            launches=OUTSIDE_LAUNCHES,
            forward_flops=head / 3,
            forward_launches=OUTSIDE_LAUNCHES / (1 + BACKWARD_LAUNCHES),
        ),
    ]
