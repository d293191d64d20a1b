"""What a checkpoint's manifest holds, and what is wrong with one that was damaged: a wrong type would stop a run far from its cause."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from zerocfg.misfit import misfit
from zerocfg.plan import Plan


class Recorded(TypedDict, total=False):
    """Of the run so far, for the records of the next start (records.py)."""

    last_loss: float | None
    seconds: float
    warm_tokens: float
    warm_seconds: float
    warm_done: int
    warm_split: dict[str, float]
    warm_steps: int
    checkpoint_seconds: float
    memory_by_rank: list[int]
    starts: list[int]
    trackers: dict[str, dict[str, Any]]
    summary: dict[str, Any]


class Manifest(TypedDict, total=False):
    """zerocfg.json. Earlier releases wrote less than this, and less of the plan."""

    format: int
    step: int
    plan: Plan
    started_from: str
    world_size: int
    parameters: dict[str, list[int]]
    optimizer: str
    schedule: str
    time: float
    recorded: Recorded
    files: dict[str, int]


NEEDED = (
    "step",
    "files",
    "plan.topology.num_nodes",
    "plan.topology.nproc_per_node",
    "plan.topology.tensor_parallel_degree",
    "plan.zero.stage",
    "plan.precision.dtype",
    "plan.batch.global_batch_size",
    "plan.batch.micro_batch_size",
    "plan.optimizer.type",
    "plan.optimizer.params",
    "plan.scheduler.type",
)
"""What every release wrote and every start reads."""


def fault(manifest: Mapping[str, Any]) -> str:
    """The first that is missing or of a wrong type; empty: nothing."""
    if wrong := misfit(Manifest, manifest):
        return wrong
    for path in NEEDED:
        node: Any = manifest
        for name in path.split("."):
            if name not in node:
                return f"it has no {path}"
            node = node[name]
    if manifest["step"] < 0:
        return f"step is {manifest['step']}"
    return "" if manifest["files"] else "files is empty"
