from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from zerocfg.schema.types import Count, OffloadDevice


@dataclass
class OffloadConfig:
    """Group `offload`: what lives outside the GPU."""

    name: str = ""
    """The option's name, for reports."""
    optimizer: Optional[OffloadDevice] = OffloadDevice.none
    """Where optimizer states and the fp32 copy live; cpu needs stage 1-3, nvme stage 3. The step runs on the CPU. Null: the planner's
    choice."""
    param: Optional[OffloadDevice] = OffloadDevice.none
    """Where the sharded parameters live; needs stage 3. Null: the planner's choice."""
    nvme_path: Optional[str] = None
    """Folder on a local NVMe disk, which exists on each node; needed by nvme. Each job has a folder of its own below it, zerocfg-<id>, as
    long as it runs: compiled/ds_config.json has its path."""
    pin_memory: bool = True
    """Page-locked host buffers: faster copies, no swapping."""
    ratio: float = 1.0
    """Share of the optimizer's states that is offloaded (stage 3)."""
    param_buffer_count: Optional[Count] = None
    """nvme parameters: number of host buffers. Null: DeepSpeed's 5."""
    param_buffer_size: Optional[Count] = None
    """nvme parameters: elements a buffer. Null: the model's largest parameter, rounded up."""
    param_max_in_cpu: Optional[Count] = None
    """nvme parameters: elements kept in host memory. Null: DeepSpeed's 1e9."""
    optimizer_buffer_count: Optional[Count] = None
    """nvme optimizer: number of host buffers. Null: DeepSpeed's 4."""
    pipeline_read: Optional[bool] = None
    """nvme optimizer: read the next group while this one is updated. Null: on with an nvme optimizer."""
    pipeline_write: Optional[bool] = None
    """nvme optimizer: write the last group while this one is updated. Null: on with an nvme optimizer."""
