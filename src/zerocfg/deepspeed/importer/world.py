"""Which numbers of ranks the batch numbers and the degrees allow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TOTAL, MICRO, STEPS = "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"
LARGEST_WORLD = 1024
"""Where any number of ranks fits, they are listed up to here."""
MOST_RANKS = 2**20
"""Beyond any machine: numbers that only so many ranks fit are mistaken."""


def world_sizes(leaves: Mapping[str, Any]) -> list[int]:
    """Ranks for which DeepSpeed's own inference (runtime/config.py:607-656) comes out whole."""
    total, micro, steps = (_count(leaves.get(name)) for name in (TOTAL, MICRO, STEPS))
    sequence, data = _count(leaves.get("sequence_parallel_size")), _count(leaves.get("data_parallel_size"))
    if sequence and data:
        sizes = [sequence * data] if not total or fits(total, micro, steps, data) else []
    elif total is None:
        sizes = list(range(1, LARGEST_WORLD + 1))
    elif micro and steps:
        ranks = total // (micro * steps)
        sizes = [ranks * (sequence or 1)] if fits(total, micro, steps, ranks) else []
    else:
        most = min(LARGEST_WORLD, total)
        sizes = [ranks * (sequence or 1) for ranks in range(1, most + 1) if fits(total, micro, steps, ranks)]
    return [size for size in sizes if size <= MOST_RANKS]


def tiles(size: int, tensor_parallel: int, secondary: int) -> bool:
    """Whether groups of these sizes cover so many ranks."""
    return size % tensor_parallel == 0 and size % min(secondary, size) == 0


def fits(total: int, micro: int | None, steps: int | None, ranks: int) -> bool:
    """Whether total = micro x steps x ranks has a whole solution; None: any."""
    if ranks < 1:
        return False
    unit = (micro or 1) * (steps or 1) * ranks
    return total == unit if micro and steps else total % unit == 0


def micro_and_steps(total: int | None, micro: int | None, steps: int | None, ranks: int) -> tuple[int, int]:
    """What DeepSpeed makes of the batch numbers on so many ranks."""
    if total is None:
        return micro or 1, steps or 1
    if micro is not None:
        return micro, steps if steps is not None else total // (micro * ranks)
    return total // ((steps or 1) * ranks), steps or 1


def _count(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != int(value) or value < 1:
        return None
    return int(value)
