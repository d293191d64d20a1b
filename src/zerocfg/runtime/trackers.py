"""Where scalars go beside metrics.jsonl: TensorBoard's files, wandb."""

from __future__ import annotations

import dataclasses
import importlib
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from zerocfg.diagnostics import ConfigProblems, Diagnostic

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
        kinds = {"tensorboard": tensorboard, "wandb": wandb}
        made = {name: kinds[name](run, start, earlier.get(name, {})) for name in run.plan.train.trackers}
        self._trackers: dict[str, Tracker] = {name: tracker for name, tracker in made.items() if tracker is not None}

    def scalars(self, record: Mapping[str, float | None], step: int) -> None:
        values = {f"train/{name}": value for name, value in record.items() if value is not None and name not in UNLOGGED}
        for name, tracker in list(self._trackers.items()):
            self._try(name, partial(tracker.scalars, values, step))

    def facts(self) -> dict[str, Any]:
        return {name: tracker.facts() for name, tracker in self._trackers.items()}

    def close(self) -> None:
        for name, tracker in list(self._trackers.items()):
            self._try(name, tracker.close)

    def _try(self, name: str, call: Callable[[], None]) -> None:
        """One that cannot write (a full disk) is told and left out from then on: no reason to lose the run."""
        try:
            call()
        except OSError as problem:
            del self._trackers[name]
            log.warning("train.trackers: %s cannot write any more: %s; the run goes on", name, problem.strerror or problem)


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
    """Writes into the job's folder; events after step `start` are purged, as those steps are done again. None without the package."""
    try:
        module = importlib.import_module("torch.utils.tensorboard")
    except ImportError as problem:
        log.warning("no TensorBoard scalars: %s", problem)
        return None
    return _TensorBoard(module.SummaryWriter(log_dir=str(run.output_dir), purge_step=start + 1 if start else None))


class _Wandb:
    def __init__(self, run: Any) -> None:
        self._run = run
        run.define_metric("train/step")
        # steps that a resumed run does again are told again: wandb's own counter never goes back
        run.define_metric("train/*", step_metric="train/step")

    def scalars(self, values: Mapping[str, float], step: int) -> None:
        self._run.log({**values, "train/step": step})

    def facts(self) -> dict[str, Any]:
        return {"id": self._run.id}

    def close(self) -> None:
        self._run.finish()


def wandb(run: Run, start: int, earlier: Mapping[str, Any]) -> Tracker:
    """A resumed run goes on under its id. Raises ConfigProblems (ZC785) when wandb is missing or does not start."""
    known = {"id": earlier["id"], "resume": "allow"} if earlier.get("id") else {}
    folder = run.output_dir
    try:
        module = importlib.import_module("wandb")
        made = module.init(dir=str(folder), name=f"{folder.parent.name}/{folder.name}", config=dataclasses.asdict(run.plan), **known)
    except Exception as problem:  # its own kinds of errors, and those of its service
        first = next(iter(str(problem).strip().splitlines()), type(problem).__name__)
        hint = "WANDB_MODE=offline without a network, `wandb login` without a key, pip install wandb; or train.trackers=[tensorboard]"
        raise ConfigProblems(
            [Diagnostic(code="ZC785", path="train.trackers", message=f"train.trackers: wandb did not start: {first}", hint=hint)]
        ) from problem
    return _Wandb(made)
