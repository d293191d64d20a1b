"""Where scalars go beside metrics.jsonl: TensorBoard's files, wandb."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from zerocfg.runtime.run import Run

log = logging.getLogger("zerocfg")
UNLOGGED = ("seconds",)


class Tracker(Protocol):
    def scalars(self, values: Mapping[str, float], step: int) -> None: ...

    def facts(self) -> dict[str, Any]:
        """What a later start of the same run needs."""

    def close(self) -> None: ...


class Trackers:
    """Those that train.trackers names. Of rank 0. start: steps done before. earlier: `facts` of the start before."""

    def __init__(self, run: Run, start: int, earlier: Mapping[str, Any]) -> None:
        kinds = {"tensorboard": tensorboard}
        made = {name: kinds[name](run, start, earlier.get(name, {})) for name in run.plan.train.trackers}
        self._trackers: dict[str, Tracker] = {name: tracker for name, tracker in made.items() if tracker is not None}

    def scalars(self, record: Mapping[str, float | None], step: int) -> None:
        values = {f"train/{name}": value for name, value in record.items() if value is not None and name not in UNLOGGED}
        for tracker in self._trackers.values():
            tracker.scalars(values, step)

    def facts(self) -> dict[str, Any]:
        return {name: tracker.facts() for name, tracker in self._trackers.items()}

    def close(self) -> None:
        for tracker in self._trackers.values():
            tracker.close()


class _TensorBoard:
    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def scalars(self, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def facts(self) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        self._writer.close()


def tensorboard(run: Run, start: int, earlier: Mapping[str, Any]) -> Tracker | None:
    try:
        module = importlib.import_module("torch.utils.tensorboard")
    except ImportError as problem:
        log.warning("no TensorBoard scalars: %s", problem)
        return None
    return _TensorBoard(module.SummaryWriter(log_dir=str(run.output_dir), purge_step=start + 1 if start else None))
