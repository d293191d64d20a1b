"""What was measured, as a small file."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zerocfg.emit import replace_text

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


def curve_file(gpu: str, world: int, nodes: int, backend: str) -> Path:
    """Where the curve of this hardware lies: $XDG_CACHE_HOME/zerocfg/comm-h200-sxm-141gb-x2-nccl.json."""
    name = re.sub(r"[^a-z0-9]+", "-", gpu.lower()).strip("-") or "cpu"
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "zerocfg" / f"comm-{name}-x{world}{f'-n{nodes}' if nodes > 1 else ''}-{backend}.json"


def write_curve(curve: CommCurve, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_text(file, json.dumps(curve.as_dict(), indent=1, allow_nan=False) + "\n")
