"""What was measured, as a small file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from zerocfg.emit import replace_text
from zerocfg.planner.rates import COLLECTIVES
from zerocfg.probe.links import spans

Points = tuple[tuple[int, float], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class CommCurve:
    """Collectives of one backend on one set of GPUs (or processes on the CPU)."""

    backend: str
    world: int
    nodes: int
    gpu: str
    """Data sheet's name; cpu without."""
    link: str
    """As in hardware.link."""
    link_gbps: float
    """One direction, as in hardware.link_gbps, or the network's between nodes; 0: not known."""
    version: str
    """Of torch, and of NCCL."""
    points: Mapping[str, Points]
    """Collective -> (bytes, seconds), by size."""
    wrong: tuple[str, ...] = field(default=())
    """Collectives whose result was not right."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """Collective that the backend refused -> in its words."""

    def as_dict(self) -> dict[str, Any]:
        """The file: {backend, world, link, ..., all_reduce: [[bytes, seconds], ...], ...}."""
        return {**self.head(), **{op: [[size, seconds] for size, seconds in points] for op, points in self.points.items()}}

    def head(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("backend", "world", "nodes", "gpu", "link", "link_gbps", "version")}

    def serves_planner(self) -> bool:
        """Whether latency and bandwidth of what training uses can be read off it."""
        trains = self.backend == ("gloo" if self.gpu == "cpu" else "nccl")
        return trains and all(spans([size for size, _ in self.points.get(op, ())]) for op in COLLECTIVES)


def together(curve: CommCurve, file: Path) -> CommCurve:
    """With the sizes and collectives that the file has of the same machine and versions, and this curve lacks."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        if {name: found[name] for name in curve.head()} != curve.head():
            return curve
        older = {op: {int(size): float(seconds) for size, seconds in found[op]} for op in found.keys() - curve.head().keys()}
    except (OSError, ValueError, TypeError, KeyError):  # none, or not one of ours
        return curve
    points = {op: older.get(op, {}) | dict(curve.points.get(op, ())) for op in dict.fromkeys([*curve.points, *older])}
    return replace(curve, points={op: tuple(sorted(rows.items())) for op, rows in points.items()})


def write_curve(curve: CommCurve, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_text(file, json.dumps(curve.as_dict(), indent=1, allow_nan=False) + "\n")
