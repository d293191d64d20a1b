"""What `zerocfg bench comm` measured of a machine's links: a small JSON in the user's cache folder, by GPU, ranks and backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from zerocfg.diagnostics import Diagnostic
from zerocfg.facts import HardwareFacts
from zerocfg.planner.rates import COLLECTIVES, bus_factor
from zerocfg.probe.cache import are_pairs, cache_folder, read_object, refused, stem

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


def curve_gpu(hardware: HardwareFacts) -> str:
    return (hardware.gpu or hardware.name) if hardware.is_cuda else "cpu"


def spans(sizes: Sequence[float]) -> bool:
    """Whether latency and bandwidth can both be read off these bytes."""
    return bool(sizes) and min(sizes) <= SMALL and max(sizes) >= LARGE


def stored_links(hardware: HardwareFacts) -> Links:
    """Of this hardware with the backend that it trains with. A file that cannot be used: ZC513."""
    world = hardware.num_nodes * hardware.gpus_per_node
    file = curve_file(curve_gpu(hardware), world, hardware.num_nodes, "nccl" if hardware.is_cuda else "gloo")
    if not file.exists():
        return Links({}, file)
    found = read_object(file)
    if isinstance(found, str):
        return _refused(file, found)
    if wrong := [op for op in COLLECTIVES if op in found and not are_pairs(found[op])]:
        return _refused(file, f"has no measurement in {', '.join(wrong)}")
    points = {
        op: [[size * bus_factor(op, world), seconds * 1e6] for size, seconds in found[op]]
        for op in COLLECTIVES
        if spans([size for size, _ in found.get(op, ())])
    }
    return Links(points, file)


def _refused(file: Path, why: str) -> Links:
    return Links({}, file, (refused(file, why, "zerocfg bench comm on the machine that trains, or delete the file"),))
