"""What a page shows, as plain data. Text is as it stands in the files: escaping is the page's work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Log:
    """The end of a log."""

    name: str
    lines: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Prediction:
    """Memory of the most loaded GPU, bytes."""

    parts: Mapping[str, int]
    """Name for people -> bytes at the peak."""
    memory_bytes: int
    """Of the card."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Saved:
    """A whole checkpoint."""

    step: int
    path: str
    size_bytes: int


_LOGGED = {"last_loss": "loss", "peak_memory_bytes": "memory_bytes", "steps": "step"}
"""Name in summary.json -> in metrics.jsonl."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunData:
    """One job's folder. What is missing is empty, and `notes` says so."""

    name: str
    folder: str
    state: str
    """done, stopped, failed, running, not started, or what results.csv says; unknown where no end is recorded."""
    overrides: tuple[str, ...] = ()
    plan: Mapping[str, Any]
    deepspeed: Mapping[str, Any]
    torchrun: tuple[str, ...] = ()
    environment: Mapping[str, str]
    records: tuple[Mapping[str, Any], ...] = ()
    """Lines of metrics.jsonl, by step; numbers only."""
    summary: Mapping[str, Any]
    prediction: Prediction | None = None
    checkpoints: tuple[Saved, ...] = ()
    damaged: tuple[str, ...] = ()
    """Checkpoints that are not whole, each with its reason."""
    logs: tuple[Log, ...] = ()
    """Why a run did not end well."""
    notes: tuple[str, ...] = ()

    def get(self, path: str, default: Any = None) -> Any:
        """A value of the plan: batch.global_batch_size."""
        node: Any = self.plan
        for name in path.split("."):
            if not isinstance(node, Mapping) or name not in node:
                return default
            node = node[name]
        return default if node is None else node

    def number(self, name: str) -> float | None:
        """Of summary.json, else of the last line of metrics.jsonl."""
        value = self.summary.get(name)
        if value is None and self.records:
            value = self.records[-1].get(_LOGGED.get(name, name))
        return number(value)

    def series(self, name: str) -> list[tuple[float, float]]:
        """(step, value) of the lines that have it."""
        return [(float(r["step"]), r[name]) for r in self.records if isinstance(r.get(name), float)]

    @property
    def world_size(self) -> int:
        nodes, ranks = number(self.get("topology.num_nodes")), number(self.get("topology.nproc_per_node"))
        return int(nodes * ranks) if nodes and ranks else int(number(self.summary.get("world_size")) or 0)

    @property
    def memory_by_rank(self) -> list[float]:
        found = self.summary.get("peak_memory_bytes_by_rank")
        return [value for item in found if (value := number(item)) is not None] if isinstance(found, list) else []


@dataclass(frozen=True, kw_only=True, slots=True)
class JobData:
    """A job of a sweep: its row of results.csv, and its folder where that is there."""

    label: str
    """Its number."""
    state: str
    overrides: tuple[str, ...]
    objective: float | None
    run: RunData | None


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepData:
    name: str
    folder: str
    jobs: tuple[JobData, ...]
    notes: tuple[str, ...] = ()


def number(value: object) -> float | None:
    """A number of a size that can be drawn, else None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if abs(found) < 1e100 else None
