"""What `zerocfg bench comm` measured of a machine's links: a small JSON in the user's cache folder, by GPU, ranks and backend."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from zerocfg.diagnostics import Diagnostic
from zerocfg.facts import HardwareFacts
from zerocfg.planner.rates import COLLECTIVES, bus_factor
from zerocfg.probe.cache import cache_folder, is_rate, refused, stem

SMALL, LARGE = 2**20, 2**24
"""Bytes: latency is read off a size of at most the first, bandwidth off one of at least the second."""


@dataclass(frozen=True, slots=True)
class Links:
    points: Mapping[str, list[list[float]]]
    """Collective -> [[bytes on the bus, microseconds], ...], as planner.rates.fit takes them."""
    file: Path
    problems: tuple[Diagnostic, ...] = ()


def curve_file(gpu: str, world: int, nodes: int, backend: str) -> Path:
    """Where the curve of this hardware lies: $XDG_CACHE_HOME/zerocfg/comm-h200-sxm-141gb-x2-nccl.json."""
    return cache_folder() / f"comm-{stem(gpu)}-x{world}{f'-n{nodes}' if nodes > 1 else ''}-{backend}.json"


def curve_file_of(hardware: HardwareFacts, backend: str) -> Path:
    return curve_file(curve_gpu(hardware), hardware.num_nodes * hardware.gpus_per_node, hardware.num_nodes, backend)


def curve_gpu(hardware: HardwareFacts) -> str:
    return (hardware.gpu or hardware.name) if hardware.is_cuda else "cpu"


def spans(sizes: Sequence[float]) -> bool:
    """Whether latency and bandwidth can both be read off these bytes."""
    return bool(sizes) and min(sizes) <= SMALL and max(sizes) >= LARGE


def stored_links(hardware: HardwareFacts) -> Links:
    """Of this hardware with the backend that it trains with. A file that cannot be used: ZC513."""
    file = curve_file_of(hardware, "nccl" if hardware.is_cuda else "gloo")
    if not file.exists():
        return Links({}, file)
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except OSError as problem:
        return _refused(file, f"cannot be read: {problem.strerror or problem}")
    except ValueError as problem:
        return _refused(file, f"is not JSON: {problem}")
    if not isinstance(found, dict):
        return _refused(file, f"holds {type(found).__name__}, not an object")
    if wrong := [op for op in COLLECTIVES if op in found and not _usable(found[op])]:
        return _refused(file, f"has no measurement in {', '.join(wrong)}")
    world = hardware.num_nodes * hardware.gpus_per_node
    points = {
        op: [[size * bus_factor(op, world), seconds * 1e6] for size, seconds in found[op]]
        for op in COLLECTIVES
        if spans([size for size, _ in found.get(op, ())])
    }
    return Links(points, file)


def _usable(rows: object) -> bool:
    return isinstance(rows, list) and all(isinstance(row, list) and len(row) == 2 and all(map(is_rate, row)) for row in rows)


def _refused(file: Path, why: str) -> Links:
    return Links({}, file, (refused(file, why, "zerocfg bench comm on the machine that trains, or delete the file"),))
