"""Drawings of memory and plans. matplotlib is loaded by name, and only here: it is no dependency."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from zerocfg.errors import ZerocfgError
from zerocfg.memory import PARTS, MemoryEstimate
from zerocfg.plan import Plan
from zerocfg.planner.rank import Ranked

GIB = 2**30


class NoMatplotlib(ZerocfgError):
    """Nothing can be drawn."""


def _figure() -> tuple[Any, Any]:
    try:
        matplotlib = importlib.import_module("matplotlib")
        matplotlib.use("Agg")
        pyplot = importlib.import_module("matplotlib.pyplot")
    except ImportError as missing:
        raise NoMatplotlib("matplotlib is not installed: pip install 'zerocfg[plot]'") from missing
    figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
    return figure, axes


def memory_plot(plan: Plan, found: MemoryEstimate, file: Path) -> None:
    """One stacked bar a phase, and the card as a line."""
    figure, axes = _figure()
    bottoms = dict.fromkeys(found.phases, 0.0)
    tops = {phase: max((m for m in found.moments if m.phase == phase), key=lambda m: m.total) for phase in found.phases}
    for part, label in PARTS.items():
        heights = [tops[phase].parts.get(part, 0) / GIB for phase in tops]
        if any(heights):
            axes.bar(list(tops), heights, bottom=list(bottoms.values()), label=label)
            bottoms = {phase: bottoms[phase] + height for phase, height in zip(tops, heights, strict=True)}
    axes.axhline(found.usable_bytes / GIB, color="black", linestyle="--", label="card, less context")
    axes.set_ylabel("GiB")
    axes.set_title(f"{plan.model_name}, stage {plan.zero.stage}, micro batch {plan.batch.micro_batch_size}")
    axes.legend(fontsize="small")
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
    figure, axes = _figure()
    for stage in range(4):
        same = [r for r in ranked if r.plan.zero.stage == stage]
        if same:
            axes.scatter([r.memory.needed_bytes / GIB for r in same], [r.tokens_per_s_per_gpu for r in same], label=f"stage {stage}")
    line = frontier(ranked)
    axes.plot([r.memory.needed_bytes / GIB for r in line], [r.tokens_per_s_per_gpu for r in line], color="grey", zorder=0)
    axes.set_xlabel("GiB needed on each GPU")
    axes.set_ylabel("tokens/s a GPU, predicted")
    axes.legend()
    figure.savefig(file)
