from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from zerocfg.schema.types import Count, DType


@dataclass
class PrecisionConfig:
    """Group `precision`: dtype of weights and of the optimizer's copy."""

    name: str = ""
    """The option's name, for reports."""
    dtype: DType = DType.fp32
    """dtype of the model's weights, activations and gradients."""
    tf32: bool = False
    """Let fp32 matrix products run on TF32 tensor cores (set through TORCH_ALLOW_TF32_CUBLAS_OVERRIDE)."""
    master_dtype: DType = DType.fp32
    """dtype of the optimizer's copy of the weights and of its states. bf16 halves both (stages 1-3)."""
    grad_accum_dtype: Optional[DType] = None
    """dtype in which gradients are accumulated over micro batches. Null: the model's dtype."""
    communication_data_type: Optional[DType] = None
    """dtype in which gradients are reduced. Null: the model's dtype."""
    loss_scale: float = 0.0
    """fp16 only: 0 is dynamic, any other value is fixed."""
    initial_scale_power: Count = 16
    """fp16 only: first dynamic scale is 2**this."""
    loss_scale_window: Count = 1000
    """fp16 only: steps without overflow before the scale doubles."""
    hysteresis: Count = 2
    """fp16 only: overflows before the scale halves."""
    min_loss_scale: Count = 1
    """fp16 only: lowest dynamic scale."""
