from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from zerocfg.schema.types import Count


@dataclass
class ActivationCheckpointingConfig:
    """Group `activation_checkpointing`: recompute activations in the backward pass instead of keeping them.

    DeepSpeed acts on it only where the model calls `deepspeed.checkpointing.checkpoint`; zerocfg's runtime configures that
    and offers it as `run.checkpoint(fn, *args)`.
    """

    name: str = ""
    """The option's name, for reports."""
    enabled: Optional[bool] = False
    """Recompute each transformer block. Null: the planner's choice."""
    partition_activations: bool = False
    """Split the kept activations over the tensor-parallel group; without effect when its degree is 1."""
    cpu_checkpointing: bool = False
    """Move the kept activations to host memory."""
    contiguous_memory_optimization: bool = False
    """Keep them in one buffer; needs partition_activations and number_checkpoints."""
    number_checkpoints: Optional[Count] = None
    """Number of recomputed blocks. Null: num_hidden_layers where it is needed."""
    synchronize_checkpoint_boundary: bool = False
    """Synchronize the GPU at each block (debugging)."""
    profile: bool = False
    """Time forward and backward of each block."""
