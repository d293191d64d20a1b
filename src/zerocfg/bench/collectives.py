"""Collectives and their bandwidths, as nccl-tests define them (doc/PERFORMANCE.md of that project). Pure."""

from __future__ import annotations

import re

from zerocfg.planner.rates import bus_factor

OPS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")
ELEMENT = 4
"""Bytes of a float32."""
DEFAULT_SIZES = {"nccl": "1K:1G:4", "gloo": "1K:64M:4"}
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}
_SIZE = re.compile(r"(\d+)([KMG]?)(?:I?B)?", re.IGNORECASE)
_MOST = 64 * 2**30


def alg_gbps(size: int, seconds: float) -> float:
    """GB/s. size: bytes of the whole operation: the buffer of all_reduce, broadcast and all_to_all, the gathered one of all_gather, the one
    to be scattered of reduce_scatter."""
    return size / seconds / 1e9


def bus_gbps(op: str, size: int, seconds: float, world: int) -> float:
    """GB/s; comparable with the rate of a link at any number of ranks."""
    return alg_gbps(size, seconds) * bus_factor(op, world)


def rounded(size: int, world: int) -> int:
    """The nearest size upward whose parts are whole numbers for each rank."""
    step = ELEMENT * world
    return max(1, -(-size // step)) * step


def parse_sizes(text: str) -> tuple[int, ...]:
    """`256M,1G`, or FROM:TO[:TIMES] (times 2 without). Bytes; K, M and G are powers of 1024. Raises ValueError."""
    sizes: list[int] = []
    for part in text.split(","):
        ends = part.split(":")
        if len(ends) == 1:
            sizes.append(_size(part))
            continue
        if len(ends) > 3:
            raise ValueError(f"{part!r} is not FROM:TO:TIMES")
        low, high, times = _size(ends[0]), _size(ends[1]), int(ends[2]) if len(ends) == 3 and ends[2].isdigit() else 2
        if (len(ends) == 3 and not ends[2].isdigit()) or times < 2 or low > high:
            raise ValueError(f"{part!r} is not FROM:TO:TIMES with FROM <= TO and TIMES >= 2")
        while low <= high:
            sizes.append(low)
            low *= times
    return tuple(sorted(set(sizes)))


def _size(text: str) -> int:
    found = _SIZE.fullmatch(text.strip())
    size = int(found[1]) * _UNITS[found[2].upper()] if found and len(found[1]) < 15 else 0
    if not 0 < size <= _MOST:
        raise ValueError(f"{text.strip()!r} is not a size: 4K, 256M, 1G")
    return size


def size_text(size: int) -> str:
    """1048576 -> 1 MiB; sizes that are no whole number of a unit in bytes."""
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= factor and size % factor == 0:
            return f"{size // factor} {unit}"
    return f"{size} B"
