"""The training loop's outer half: optimizer steps, accumulation, what is logged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from time import perf_counter
from typing import TYPE_CHECKING, Any

from zerocfg.diagnostics import ConfigProblems, Diagnostic
from zerocfg.runtime import samples
from zerocfg.runtime.data import MicroBatches
from zerocfg.runtime.heartbeat import reached
from zerocfg.runtime.keeper import Keeper
from zerocfg.runtime.records import Recorder

if TYPE_CHECKING:
    from zerocfg.runtime.run import Run


class Step:
    """One optimizer step: iterate over its micro batches (tensors are on the device), then call engine.step() in each.

    for step in run.steps(loader):
        for inputs, targets in step:
            loss = engine(inputs, targets)
            engine.backward(loss)
            engine.step()
            step.record(loss)
    """

    def __init__(self, number: int, batches: Iterator[Any], size: int, run: Run, *, first: bool) -> None:
        self.number = number
        """From 1."""
        self._batches = batches
        self._size = size
        self._run = run
        self.used = 0
        self.losses: list[Any] = []
        """Detached, one a micro batch."""
        self.elements = 0
        """Elements of the first tensor of each micro batch: tokens, for a language model."""
        self.waited = 0.0
        """Seconds of the host until micro batches were there."""
        self.first = first
        """Of this start."""
        self.fingerprint = 0.0
        """Of its first micro batch, in a start's first step."""

    def __iter__(self) -> Iterator[Any]:
        while self.used < self._size:
            begun = perf_counter()
            batch = next(self._batches)
            self.waited += perf_counter() - begun
            if self.first and self.used == 0:
                self.fingerprint = samples.fingerprint(batch)
            self.used += 1
            moved = _to(batch, self._run.device, self._run.plan.train.pin_memory)
            self.elements += _first_size(moved)
            yield moved

    def record(self, loss: Any) -> None:
        """Take a micro batch's loss (its mean over the micro batch) into the step's; no synchronization."""
        self.losses.append(loss.detach().float())


def steps(run: Run, batches: Iterable[Any], engine: Any) -> Iterator[Step]:
    """Codes: ZC783 unused micro batches, ZC784 an iterable without batches; those of saving and resuming. Warnings: ZC786 ranks with the
    same samples, ZC787 a loader with another batch size.

    Raises Preempted, at the end of a step, when the run was asked to stop and has saved.
    """
    train, size = run.plan.train, run.plan.batch.gradient_accumulation_steps
    resumed = run.resume(engine)
    data = MicroBatches(batches)
    samples.tell(run, batches)
    with Recorder(run, engine, resumed) as recorder, Keeper(run, engine, resumed, data, recorder) as keeper:
        keeper.continue_from(resumed)
        for number in range(resumed.step + 1, train.steps + 1):
            step = Step(number, data, size, run, first=number == resumed.step + 1)
            reached(number)
            recorder.begin(step)
            yield step
            if step.used < size:
                raise ConfigProblems([_unused(step, size)])
            recorder.end(step, log=step.first or number == train.steps or number % train.log_every == 0)
            if step.first:
                samples.compare(run, step.fingerprint)
            keeper.after(number)
        recorder.finished = True
        keeper.finish()


def _unused(step: Step, size: int) -> Diagnostic:
    return Diagnostic(
        code="ZC783",
        path="batch.gradient_accumulation_steps",
        message=f"step {step.number} used {step.used} of its {size} micro batches",
        detail=("the optimizer steps after the last of them only",),
        hint="for batch in step: ... without a break",
    )


def _to(batch: Any, device: Any, non_blocking: bool) -> Any:
    if hasattr(batch, "to"):
        return batch.to(device, non_blocking=non_blocking)
    if isinstance(batch, dict):
        return {key: _to(value, device, non_blocking) for key, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(_to(value, device, non_blocking) for value in batch))
    if isinstance(batch, (list, tuple)):
        return type(batch)(_to(value, device, non_blocking) for value in batch)
    return batch


def _first_size(batch: Any) -> int:
    if hasattr(batch, "numel"):
        return int(batch.numel())
    if isinstance(batch, dict):
        batch = list(batch.values())
    return _first_size(batch[0]) if isinstance(batch, (list, tuple)) and batch else 0
