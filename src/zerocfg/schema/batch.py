from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from zerocfg.schema.types import Count, CountOrAuto


@dataclass
class BatchConfig:
    """Group `batch`: global = micro x accumulation x data-parallel ranks. Give any subset; the rest is solved.

    Data-parallel ranks = world size / (tensor_parallel_degree x sequence_parallel_degree).
    """

    name: str = ""
    """The option's name, for reports."""
    global_batch_size: Optional[Count] = None
    """Sequences an optimizer step, over all ranks (DeepSpeed: train_batch_size)."""
    micro_batch_size: Optional[CountOrAuto] = None
    """Sequences a forward pass on one rank (DeepSpeed: train_micro_batch_size_per_gpu). auto: the largest within hardware.memory_target."""
    gradient_accumulation_steps: Optional[Count] = None
    """Forward passes an optimizer step."""
