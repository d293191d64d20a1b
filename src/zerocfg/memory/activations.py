"""What the forward pass keeps for the backward pass: `ActivationTrace`, and its closed form for a model known by its dims.

All byte counts are for one sample on one rank, weights and gradients left out. They were derived from what torch's
operators save (derivatives.yaml) for train.py's GPT and agree with the traced model (profile/trace.py) within 5 %; for
bf16, 12 + 4k + 4f/h (gelu) or 12 + 4k + 8f/h (swiglu, eager) bytes per token, hidden element and block, k = kv heads / heads.
"""

from __future__ import annotations

from zerocfg.facts import ModelFacts
from zerocfg.memory.operations import operations
from zerocfg.traced import ActivationTrace

DTYPE_BYTES = {"fp32": 4, "fp16": 2, "bf16": 2}
_INDEX_BYTES = 8
"""Token ids and targets are int64."""


def closed_form(
    model: ModelFacts, dtype: str, *, tensor_parallel_degree: int = 1, sequence_parallel_degree: int = 1, fp32_logits: bool = True
) -> ActivationTrace:
    """Activations of train.py's GPT on these dims.

    tensor_parallel_degree: AutoTP, which keeps the residual stream whole and cuts heads and MLP width.
    sequence_parallel_degree: Ulysses, which cuts the tokens; attention sees all tokens of its part of the heads.
    fp32_logits: the loss is taken of logits.float(), as in train.py and in transformers.
    """
    b, tp, sp = DTYPE_BYTES[dtype], tensor_parallel_degree, sequence_parallel_degree
    s, h, vocab = model.sequence_length // sp, model.hidden_size, model.vocab_size
    q = model.num_attention_heads * model.head_dim // tp
    kv = max(1, model.num_key_value_heads // tp) * model.head_dim
    f, heads = model.intermediate_size // tp, model.num_attention_heads // tp
    swiglu, grouped = model.mlp == "swiglu", model.num_key_value_heads != model.num_attention_heads
    norm_statistics = 8 if model.norm == "layernorm" else 4
    math_attention = dtype == "fp32" and grouped

    # both norm outputs, the middle of the residual stream, the block's output; q, k, v, attention's output
    saved = b * (4 * h + 2 * q + 2 * kv) + 2 * norm_statistics
    saved += b * (4 if swiglu else 2) * f
    if sp > 1:
        saved += b * q  # the second all-to-all's output is a tensor of its own
    if math_attention:
        # no fused kernel takes fp32 with grouped heads: probabilities are kept, keys and values repeated
        saved += b * heads * model.sequence_length + b * 2 * (q - kv)
    else:
        saved += 4 * heads  # logsumexp
    # backward of the MLP's activation: gradients of the output, of the activation and of what went into it
    backward = b * (h + 2 * f if swiglu else h + f)
    if math_attention:
        # gradients of the probabilities and of the scores, when what the MLP had saved is gone
        backward = max(backward, b * (2 * heads * model.sequence_length - (4 if swiglu else 2) * f - h))
    logits = vocab * b
    wide = vocab * 4 if fp32_logits else logits
    upcast = wide if fp32_logits and b != 4 else 0
    head_input = b * h + norm_statistics
    blocks, outside = operations(model, b, tensor_parallel_degree=tp, sequence_parallel_degree=sp)
    return ActivationTrace(
        source="closed form",
        dtype=dtype,
        tokens=s,
        num_blocks=model.num_hidden_layers,
        block_saved=s * saved,
        block_input=s * b * h,
        block_backward=s * backward,
        outside_saved=s * (b * h + 2 * _INDEX_BYTES),
        # logits, their fp32 copy, log-probabilities
        loss_forward=s * (head_input + logits + upcast + wide),
        loss_saved=s * (head_input + wide),
        # log-probabilities, their gradient, the gradient of the (fp32) logits
        loss_backward=s * (head_input + 3 * wide),
        head_backward=s * (head_input + logits + b * h),
        shared=s * model.head_dim * b if model.positions == "rotary" else 0,
        flops_per_token=flops_per_token(model),
        blocks=blocks,
        outside=outside,
    )


def flops_per_token(model: ModelFacts) -> float:
    """6 N + 12 L h s, N without the input embeddings: forward and backward, attention non-causal (PaLM, appendix B)."""
    matrices = model.num_hidden_layers * model.block_parameters + model.embedding_parameters
    return 6.0 * matrices + 12.0 * model.num_hidden_layers * model.num_attention_heads * model.head_dim * model.sequence_length
