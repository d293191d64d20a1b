"""Axes: ticks at round numbers, values as people read them, long series made short."""

from __future__ import annotations

import math
from collections.abc import Sequence

_TINY = 1e-250
Points = Sequence[tuple[float, float]]


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers in low..high, about `count` of them."""
    if not high > low:
        return [low]
    raw = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(unit * power for unit in (1, 2, 2.5, 5, 10) if unit * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 12) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def domain(values: Sequence[float], *, zero: bool) -> tuple[float, float]:
    """Of an axis: with a little room, from 0 where lengths are compared."""
    low, high = min(values), max(values)
    size = max(abs(low), abs(high))
    if size < _TINY:
        return -0.5 if not zero else min(0.0, low), 1.0
    if zero:
        return min(0.0, low), 1.05 * high if high > 1e-9 * size else 0.05 * size
    # values that differ in their last digits only are drawn as a flat line
    room = 0.05 * (high - low if high - low > 1e-9 * size else size)
    return low - room, high + room


def thin(points: Points, most: int = 400) -> list[tuple[float, float]]:
    """Of each stretch the lowest and the highest point: peaks stay."""
    if len(points) <= most:
        return list(points)
    kept: list[tuple[float, float]] = [points[0]]
    size = len(points) / (most / 2)
    for i in range(most // 2):
        stretch = points[math.floor(i * size) : max(math.floor(i * size) + 1, math.floor((i + 1) * size))]
        kept += sorted({min(stretch, key=lambda p: p[1]), max(stretch, key=lambda p: p[1])})
    kept.append(points[-1])
    return sorted(set(kept))


def plain(value: float) -> str:
    """At most four digits: 12345 -> 12,345; 0.00012345 -> 1.234e-04."""
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}" if abs(value) < 1e15 else f"{value:.3e}"
    if abs(value) < 1e-3:
        return f"{value:.3g}"
    return f"{value:.4g}"


def seconds(value: float) -> str:
    """In the unit that suits it: 250 µs, 1.5 s, 3 min 20 s."""
    if value == 0:
        return "0 s"
    if value < 1e-3:
        return f"{value * 1e6:.3g} µs"
    if value < 1:
        return f"{value * 1e3:.3g} ms"
    if value < 120:
        return f"{value:.3g} s"
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"
