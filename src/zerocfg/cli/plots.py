"""Drawings of memory and plans. matplotlib is loaded by name, and only here: it is no dependency."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from zerocfg.cli import output
from zerocfg.errors import ZerocfgError
from zerocfg.memory import PARTS, MemoryEstimate
from zerocfg.plan import Plan
from zerocfg.planner.rank import Ranked

GIB = 2**30


_COLORS = [
    *("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#9c755f", "#76b7b2", "#ff9da7", "#edc948", "#bab0ac"),
    *("#1f3b57", "#8cd17d", "#d37295"),
]
"""One for each part of memory."""
_MARKERS = (("o", 90), ("s", 130), ("D", 40), ("^", 70))
"""By stage; of other sizes, because stages 1 and 2 often fall together."""


class NoMatplotlib(ZerocfgError):
    """Nothing can be drawn."""


def draw(plot: str, picture: Callable[[Path], None]) -> int:
    """Exit status of --plot: 0, or 2 when it cannot be drawn, and why on stderr. picture: draws into a file, the suffix is the format."""
    file = Path(plot)
    try:
        if not file.suffix or file.is_dir():
            raise ValueError("not the name of a file that ends in .png, .svg or .pdf")
        picture(file)
    except (NoMatplotlib, OSError, ValueError) as why:
        output.say(f"--plot {plot}: {why}")
        return 2
    return 0


def new_figure(width: float = 9, height: float = 5) -> tuple[Any, Any]:
    """(figure, axes), inches. Raises NoMatplotlib."""
    try:
        importlib.import_module("matplotlib").use("Agg")
        pyplot = importlib.import_module("matplotlib.pyplot")
    except ImportError as missing:
        raise NoMatplotlib("matplotlib is not installed: pip install 'zerocfg[plot]'") from missing
    figure, axes = pyplot.subplots(figsize=(width, height), layout="constrained")
    return figure, axes


def memory_plot(plan: Plan, found: MemoryEstimate, file: Path) -> None:
    """One stacked bar a phase, and the GPU as a line."""
    figure, axes = new_figure()
    axes.set_prop_cycle(color=_COLORS)
    bottoms = dict.fromkeys(found.phases, 0.0)
    tops = {phase: max((m for m in found.moments if m.phase == phase), key=lambda m: m.total) for phase in found.phases}
    for part, label in PARTS.items():
        heights = [tops[phase].parts.get(part, 0) / GIB for phase in tops]
        if any(heights):
            axes.bar(list(tops), heights, bottom=list(bottoms.values()), label=f"{label}, {max(heights):.3g} GiB")
            bottoms = {phase: bottoms[phase] + height for phase, height in zip(tops, heights, strict=True)}
    axes.axhline(
        found.usable_bytes / GIB, color="black", linestyle="--", label=f"what the GPU has for it, {found.usable_bytes / GIB:.3g} GiB"
    )
    axes.set_ylabel("GiB allocated at the most")
    axes.set_xlabel("part of a training step")
    stage = f"ZeRO stage {plan.zero.stage}" if plan.zero.stage else "plain data parallelism"
    axes.set_title(f"memory of one GPU: {plan.model_name}, {stage}, micro batch {plan.batch.micro_batch_size}")
    handles, labels = axes.get_legend_handles_labels()
    # from the top down, as the bars are stacked
    axes.legend(handles[::-1], labels[::-1], fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.savefig(file)


def frontier(ranked: Sequence[Ranked]) -> list[Ranked]:
    """Plans that no other beats in both speed and memory, by memory."""
    best: list[Ranked] = []
    for found in sorted(ranked, key=lambda r: (r.memory.needed_bytes, -r.tokens_per_s_per_gpu)):
        if not best or found.tokens_per_s_per_gpu > best[-1].tokens_per_s_per_gpu:
            best.append(found)
    return best


def plan_plot(ranked: Sequence[Ranked], file: Path) -> None:
    """Memory against speed, with the frontier."""
    figure, axes = new_figure()
    for stage, (marker, size) in enumerate(_MARKERS):
        same = [r for r in ranked if r.plan.zero.stage == stage]
        if same:
            x, y = [r.memory.needed_bytes / GIB for r in same], [r.tokens_per_s_per_gpu for r in same]
            axes.scatter(x, y, marker=marker, s=size, facecolors="none", edgecolors=f"C{stage}", linewidths=1.5, label=f"stage {stage}")
    line = frontier(ranked)
    x, y = [r.memory.needed_bytes / GIB for r in line], [r.tokens_per_s_per_gpu for r in line]
    axes.plot(x, y, color="grey", zorder=0, label="nothing is faster in less memory")
    best = ranked[0]
    words = " ".join(text for text in best.overrides if not text.startswith("parallelism.") and "accumulation" not in text)
    where = f"{best.plan.topology.world_size} x {best.plan.hardware.gpu or 'cpu'}"
    axes.set_title(f"{best.plan.model_name} on {where}, plans that fit; the fastest:\n{words}", fontsize="medium")
    axes.set_xlabel("GiB needed on each GPU")
    axes.set_ylabel("tokens/s a GPU, predicted")
    axes.legend()
    figure.savefig(file)
