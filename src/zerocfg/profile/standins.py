"""Operators as CUDA runs them, for a trace on the CPU: what they keep for the backward pass and what they need in it.

On fake CPU tensors torch would take the CPU's kernels, and these differ in memory: attention with grouped heads, rms_norm
(composed there, fused on CUDA) and dropout (a mask of the input's dtype there, of bytes on CUDA).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def as_on_cuda(count_flops: Callable[[float], None], count_norm: Callable[[float], None]) -> Iterator[None]:
    """Replace these functions of torch.nn.functional while the block runs. count_flops, count_norm: take attention's FLOPs and the
    bytes that a norm moves, which no formula sees."""
    import torch
    from torch.nn import functional

    attention, norm = _kernels(count_flops, count_norm)
    math_attention = functional.scaled_dot_product_attention

    def scaled_dot_product_attention(
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Any:
        half = query.dtype in (torch.float16, torch.bfloat16)
        grouped = query.shape[-3] != key.shape[-3]
        flash = half and attn_mask is None and query.shape[-1] <= 256
        if flash or not grouped:
            return attention.apply(query, key, value)
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            return math_attention(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)

    def rms_norm(input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
        return norm.apply(input, weight, len(normalized_shape))

    def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        return torch.native_dropout(input, p, training)[0] if training and p > 0 else input

    replaced = {"scaled_dot_product_attention": scaled_dot_product_attention, "rms_norm": rms_norm, "dropout": dropout}
    before = {name: getattr(functional, name) for name in replaced}
    try:
        for name, function in replaced.items():
            setattr(functional, name, function)
        yield
    finally:
        for name, function in before.items():
            setattr(functional, name, function)


def _kernels(count_flops: Callable[[float], None], count_norm: Callable[[float], None]) -> tuple[Any, Any]:
    import torch

    class FlashAttention(torch.autograd.Function):  # type: ignore[misc]
        """Keeps q, k, v, the output and the logsumexp (fp32, one a query and head). Memory-efficient attention keeps the same."""

        @staticmethod
        def forward(ctx: Any, query: Any, key: Any, value: Any) -> Any:
            *batch, heads, length, dim = query.shape
            # laid out (batch, tokens, heads, dim), so that the heads are joined without a copy
            out = query.new_empty(*batch, length, heads, value.shape[-1]).transpose(-3, -2)
            lse = query.new_empty(*batch, heads, length, dtype=torch.float32)
            ctx.save_for_backward(query, key, value, out, lse)
            count_flops(4.0 * math.prod(batch) * heads * length * key.shape[-2] * dim)
            return out

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            query, key, value, _, lse = ctx.saved_tensors
            heads, kv_heads = query.shape[-3], key.shape[-3]
            count_flops(8.0 * lse.numel() * key.shape[-2] * query.shape[-1])
            # the gradient of q is added up in fp32; those of k and v come out one a query head and are summed over a group
            accumulated = torch.empty_like(query, dtype=torch.float32)
            softmax_d = torch.empty_like(lse)
            expanded = [t.new_empty(*t.shape[:-3], heads, *t.shape[-2:]) for t in (key, value)] if heads != kv_heads else []
            grads = tuple(torch.empty_like(t) for t in (query, key, value))
            del accumulated, softmax_d, expanded
            return grads

    class FusedRMSNorm(torch.autograd.Function):  # type: ignore[misc]
        """Keeps the input and one fp32 number a row."""

        @staticmethod
        def forward(ctx: Any, x: Any, weight: Any, dims: int) -> Any:
            rows = x.new_empty(*x.shape[:-dims], *([1] * dims), dtype=torch.float32)
            ctx.save_for_backward(x, rows, *([] if weight is None else [weight]))
            count_norm(2.0 * x.numel() * x.element_size())
            return torch.empty_like(x)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            x, _, *weight = ctx.saved_tensors
            count_norm(3.0 * x.numel() * x.element_size())
            return torch.empty_like(x), *(torch.empty_like(w) for w in weight), *([None] * (2 - len(weight)))

    return FlashAttention, FusedRMSNorm
