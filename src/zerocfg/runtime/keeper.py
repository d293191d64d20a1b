"""What happens between two steps beside logging: a checkpoint when one is due, the end when the run was asked to stop."""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any

from zerocfg.errors import Preempted
from zerocfg.runtime.agreement import Agreement, Word
from zerocfg.runtime.checkpoint_save import Saver
from zerocfg.runtime.engine import collective_timeout
from zerocfg.runtime.random_state import rank_state, set_rank_state
from zerocfg.runtime.stopping import StopSignals, asked_by, introduce, name_of, neighbours

if TYPE_CHECKING:
    from zerocfg.runtime.checkpoint_load import Resumed
    from zerocfg.runtime.data import MicroBatches
    from zerocfg.runtime.records import Recorder
    from zerocfg.runtime.run import Run

log = logging.getLogger("zerocfg")


class Keeper:
    """Of one training loop. All ranks call it in step. With checkpoint.enabled off it only finds the place of a resumed run."""

    def __init__(self, run: Run, engine: Any, resumed: Resumed, data: MicroBatches, recorder: Recorder) -> None:
        self._run = run
        self._engine = engine
        self._resumed = resumed
        self._data = data
        self._recorder = recorder
        self._plan = run.plan.checkpoint
        self._stack = ExitStack()
        self._saver: Saver | None = None
        self._announced = False
        """Rank 0 has said that a checkpoint is due, and it is not saved yet."""
        self._begun_at = 0
        """Step at whose end an async checkpoint was begun."""

    def __enter__(self) -> Keeper:
        run = self._run
        self._stack.callback(self._resumed.release)
        if self._plan.enabled:
            self._agreement = Agreement(collective_timeout(run))
            others = neighbours(self._agreement.texts(introduce()), run.rank)
            self._signals = StopSignals(run.plan.torchrun.signals_to_handle, others)
            self._stack.enter_context(self._signals)
            self._saver = Saver(
                run, self._engine, self._agreement, started_from=self._resumed.started_from, newest=self._resumed.checkpoint
            )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._saver is not None and kind is not None:
            self._saver.abandon()
        if isinstance(error, Preempted):
            self._signals.deafen()
        self._stack.close()

    def continue_from(self, resumed: Resumed) -> None:
        """Put data and generators where the run left off; after that nothing may draw from them before the next step."""
        run, step, state = self._run, resumed.step, resumed.rank_state
        self._clock = self._boundary = time.monotonic()
        if resumed.checkpoint is None or not 0 < step < run.plan.train.steps:
            return
        # micro batches may have another size than when they were counted
        before, batch = resumed.checkpoint.plan["batch"], run.plan.batch
        place = step * before["global_batch_size"] // (batch.data_parallel_size * batch.micro_batch_size)
        data = state["data"] if state is not None else None
        if data is not None and before["micro_batch_size"] != batch.micro_batch_size:
            data = {**data, "place": data["place"] * before["micro_batch_size"] // batch.micro_batch_size}
        how = self._data.resume(data, step=step, micro_batches=place)
        if state is not None:
            set_rank_state(state["random"], cuda=run.plan.hardware.is_cuda)
        else:
            from zerocfg.runtime.engine import seed_everything

            # of their own for each rank and start: the seeds of step 0 would draw the first steps' dropout again
            seed_everything(run.plan.train.seed + 1 + run.data_parallel_rank + 1_000_003 * step)
        if run.rank == 0:
            log.info("data goes on after step %d: %s", step, how)

    def after(self, step: int) -> None:
        """At the end of a step. Raises Preempted when the run was asked to stop and has saved."""
        saver = self._saver
        if saver is None:
            return
        word = self._exchange(saver)
        if saver.under_way and step > self._begun_at + 1 and (word.failed or not word.writing):
            saver.settle()
        last, stop = step == self._run.plan.train.steps, bool(word.stop)
        if stop or last or word.save or (self._plan.every_steps and step % self._plan.every_steps == 0):
            self._save(saver, step)
        if stop and not last:
            saver.settle()
            self._part()
            newest = saver.newest
            why = asked_by(self._run.output_dir) or name_of(word.stop)
            if self._run.rank == 0:
                where = (
                    f"saved as {newest.path}" if newest and newest.step == step else f"not saved; {newest.path if newest else 'nothing'} is"
                )
                log.info("%s: stopped after step %d, %s", why, step, where)
            raise Preempted(step, why, str(newest.path) if newest else "")

    def finish(self) -> None:
        """After the last step."""
        if self._saver is None:
            return
        self._saver.settle()
        self._part()
        if self._saver.unsaved is not None:
            self._run.unsaved = self._saver.unsaved
        elif self._plan.consolidate_on_end and self._saver.newest is not None:
            from zerocfg.runtime.consolidate import FOLDER, consolidate
            from zerocfg.runtime.together import rank_0_does

            checkpoint, weights = self._saver.newest, self._run.output_dir / FOLDER
            rank_0_does(self._run.rank, lambda: log.info("%s", consolidate(checkpoint, weights, verify=False)))

    def _part(self) -> None:
        """From the other ranks; all of them are at this step."""
        self._agreement.flush()
        self._agreement.close()

    def _exchange(self, saver: Saver) -> Word:
        now = time.monotonic()
        due = self._run.rank == 0 and self._plan.every_minutes > 0 and now - self._clock >= 60 * self._plan.every_minutes
        word = Word(
            stop=float(self._signals.number),
            save=float(due and not self._announced),
            writing=float(saver.writing),
            failed=float(saver.failed),
            step_seconds=now - self._boundary,
        )
        self._announced = self._announced or due
        agreed = self._agreement.exchange(word)
        self._boundary = time.monotonic()
        return agreed

    def _save(self, saver: Saver, step: int) -> None:
        begun = time.perf_counter()
        run = self._run
        state = {"step": step, "random": rank_state(cuda=run.plan.hardware.is_cuda), "data": self._data.state()}
        saver.save(step, state, {"recorded": self._recorder.facts()})
        self._begun_at, self._announced = step, False
        self._clock = self._boundary = time.monotonic()
        self._recorder.saved(time.perf_counter() - begun)
