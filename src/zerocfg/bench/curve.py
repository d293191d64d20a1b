"""What was measured, as a small file that the planner reads."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zerocfg.bench.collectives import OPS, bus_factor
from zerocfg.emit import replace_text
from zerocfg.errors import ZerocfgError

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
        head = {name: getattr(self, name) for name in ("backend", "world", "nodes", "gpu", "link", "link_gbps", "version")}
        return {**head, **{op: [[size, seconds] for size, seconds in points] for op, points in self.points.items()}}

    def bus_points(self, op: str) -> list[list[float]]:
        """[[bytes on the bus, microseconds], ...]: what the planner's curves are fitted to."""
        return [[size * bus_factor(op, self.world), seconds * 1e6] for size, seconds in self.points.get(op, ())]


def curve_file(gpu: str, world: int, nodes: int, backend: str) -> Path:
    """Where the curve of this hardware lies: $XDG_CACHE_HOME/zerocfg/comm-h200-sxm-141gb-x2-nccl.json."""
    name = re.sub(r"[^a-z0-9]+", "-", gpu.lower()).strip("-") or "cpu"
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "zerocfg" / f"comm-{name}-x{world}{f'-n{nodes}' if nodes > 1 else ''}-{backend}.json"


def write_curve(curve: CommCurve, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_text(file, json.dumps(curve.as_dict(), indent=1, allow_nan=False) + "\n")


def read_curve(file: Path) -> CommCurve:
    """Raises ZerocfgError that names the file when it is missing or damaged."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        return CommCurve(
            **{name: found[name] for name in ("backend", "world", "nodes", "gpu", "link", "link_gbps", "version")},
            points={op: _points(found[op]) for op in OPS if op in found},
        )
    except (OSError, ValueError, TypeError, KeyError) as problem:
        raise ZerocfgError(f"{file} is no curve of zerocfg bench comm: {type(problem).__name__}: {problem}") from problem


def _points(rows: Sequence[Sequence[float]]) -> Points:
    return tuple((int(size), float(seconds)) for size, seconds in rows)
