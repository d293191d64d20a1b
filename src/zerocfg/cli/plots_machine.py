"""Pictures of a machine: its links, and what its collectives reach."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from zerocfg.bench.curve import CommCurve
from zerocfg.cli.plots import new_figure
from zerocfg.topology.matrix import Matrix, hops, nvlinks

_COLOURS = {0: "#2a9d4a", 1: "#4c72b0", 2: "#64b5cd", 3: "#ccb974", 4: "#dd8452", 5: "#c44e52"}


def topology_plot(matrix: Matrix, chosen: Sequence[int], file: Path) -> None:
    """GPUs on a circle, by NUMA node; a line a link, the wider the faster; the chosen ones filled."""
    figure, axes = new_figure(7, 7)
    order = [gpu for group in matrix.numa_nodes for gpu in group]
    places = {gpu: (math.sin(2 * math.pi * i / len(order)), math.cos(2 * math.pi * i / len(order))) for i, gpu in enumerate(order)}
    labelled: set[str] = set()
    for a, b, link in sorted(matrix.pairs(), key=lambda pair: -hops(pair[2])):
        width = 1 + math.sqrt(nvlinks(link)) if nvlinks(link) else 0.8
        xs, ys = zip(places[a], places[b], strict=True)
        label = None if link in labelled else link
        labelled.add(link)
        axes.plot(xs, ys, color=_COLOURS[hops(link)], linewidth=width, zorder=1, label=label)
    for gpu, (x, y) in places.items():
        device = matrix.gpus[gpu]
        inside = gpu in chosen
        box = {"boxstyle": "round", "facecolor": "#d9ead3" if inside else "white", "edgecolor": "black"}
        node = f"\nNUMA {device.numa_node}" if device.numa_node >= 0 else ""
        axes.text(x, y, device.name + node, ha="center", va="center", bbox=box, zorder=2)
    axes.set_xlim(-1.35, 1.35)
    axes.set_ylim(-1.35, 1.35)
    axes.set_axis_off()
    axes.set_title(f"GPUs {','.join(map(str, chosen))} chosen")
    if labelled:
        axes.legend(loc="lower right", fontsize="small")
    figure.savefig(file)
    figure.clear()


def comm_plot(curves: Sequence[CommCurve], file: Path) -> None:
    """Bus bandwidth over message size, a line a collective and backend."""
    from zerocfg.bench.collectives import bus_gbps

    figure, axes = new_figure(8, 5)
    for curve in curves:
        for op, points in curve.points.items():
            sizes = [size for size, _ in points]
            rates = [bus_gbps(op, size, seconds, curve.world) for size, seconds in points]
            axes.plot(
                sizes, rates, marker="o", markersize=3, label=f"{op} {curve.backend}", linestyle="-" if curve.backend == "nccl" else "--"
            )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("bytes")
    axes.set_ylabel("bus bandwidth, GB/s")
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize="small")
    figure.savefig(file)
    figure.clear()
