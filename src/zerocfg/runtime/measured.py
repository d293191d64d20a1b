"""What all ranks have measured up to a logged step, in one reduction."""

from __future__ import annotations

import math
import resource
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PARTS = ("forward", "backward", "optimizer", "data", "communication")
"""Parts of a step's time, as metrics.jsonl and summary.json have them with _seconds behind."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """The same on every rank."""

    loss: float | None
    """Mean over the ranks that recorded one."""
    seconds: Mapping[str, float]
    """By part, mean over the ranks; parts that a rank does not know are absent."""
    memory_by_rank: tuple[int, ...]
    """Bytes at their highest: torch's allocator on cuda, the resident set on cpu."""


def measured(losses: Sequence[Any], seconds: Mapping[str, float], *, device: Any, cuda: bool) -> Measured:
    """All ranks call in step; the GPU is waited for.

    losses: of this rank's micro batches, scalar tensors on `device`. seconds: of this rank, by `PARTS`.
    """
    import torch

    dist = torch.distributed
    world, rank = (dist.get_world_size(), dist.get_rank()) if dist.is_available() and dist.is_initialized() else (1, 0)
    memory = [0] * world
    memory[rank] = torch.cuda.max_memory_allocated() if cuda else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    parts = [seconds.get(part, math.nan) for part in PARTS]
    # float64 holds bytes exactly up to 8 PiB
    own = torch.tensor([float(bool(losses)), *parts, *memory], dtype=torch.float64, device=device)
    loss = torch.stack(list(losses)).mean().to(own) if losses else own.new_zeros(())
    values = torch.cat([loss.reshape(1), own])
    if world > 1:
        dist.all_reduce(values)
    total, count, *rest = values.tolist()
    means = {part: value / world for part, value in zip(PARTS, rest, strict=False) if not math.isnan(value)}
    return Measured(loss=total / count if count else None, seconds=means, memory_by_rank=tuple(map(int, rest[len(PARTS) :])))
