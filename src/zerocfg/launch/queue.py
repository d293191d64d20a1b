"""All jobs of a launch on this machine: each waits for its devices, as many run side by side as fit."""

from __future__ import annotations

import json
import logging
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import FrameType

from hydra.core.utils import JobReturn, JobStatus, filter_overrides

from zerocfg.diagnostics import ConfigProblems
from zerocfg.errors import PREEMPTED_STATUS, Preempted
from zerocfg.launch.board import Board
from zerocfg.launch.folders import unwritable
from zerocfg.launch.local import PROGRAM, LocalJob
from zerocfg.launch.options import LocalOptions
from zerocfg.launch.output import CLOSED_STATUS, OutputClosed, check_output
from zerocfg.launch.pool import Lease, Pool, needed
from zerocfg.launch.prepare import PreparedJob
from zerocfg.launch.results import read_results, saved_and_stopped
from zerocfg.launch.returns import failed_return, last_saved, preempted, was_shown
from zerocfg.units import counted

log = logging.getLogger("zerocfg.launch")


_TELL_SECONDS = 2.0


class Terminated(BaseException):
    """SIGTERM, SIGHUP or SIGUSR2 to the launcher; str() is its name."""


@contextmanager
def stoppable() -> Iterator[list[int]]:
    """Turn the first SIGTERM, SIGHUP or SIGUSR2 into an exception, as Ctrl-C is one: without it the launcher would die with its ranks
    still running. What comes after the first raises nothing and is added to the list: it must not cut the end of the ranks short.
    """
    stops: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield stops
        return

    def stop(number: int, frame: FrameType | None) -> None:
        stops.append(number)
        if len(stops) == 1:
            raise KeyboardInterrupt if number == signal.SIGINT else Terminated(signal.Signals(number).name)

    numbers = [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2]
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # of a shell's background job it is ignored
        numbers.append(signal.SIGINT)
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield stops
    finally:
        for number, handler in before.items():
            if not stops:  # else this process ends, and nothing may cut that short either
                signal.signal(number, handler)


class LocalQueue:
    """pools: "gpu" and "core". seal: a job's payload, made just before it starts."""

    def __init__(
        self,
        jobs: Sequence[PreparedJob],
        *,
        seal: Callable[[PreparedJob], bytes],
        options: LocalOptions,
        pools: Mapping[str, Pool],
        board: Board,
        after_each: Callable[[], None],
        program: Sequence[str] = PROGRAM,
    ) -> None:
        self._waiting = deque(jobs)
        self._many = len(jobs) > 1
        self._program = program
        self._seal, self._options, self._pools, self._board, self._after_each = seal, options, pools, board, after_each
        self._running: list[LocalJob] = []
        self._overtaken = 0
        """How often a younger job was started before the oldest that waits."""
        self._waits_since: tuple[int, float] | None = None
        """Number of the job at the head that got no devices, and since when; told once."""
        self.stopped: set[int] = set()
        """Numbers of jobs that were started and had to be stopped."""
        self.returns: dict[int, JobReturn] = {}
        """By job number."""

    def run(self) -> None:
        """Until the last job has ended. Raises SystemExit after Ctrl-C (130), SIGTERM or when stdout was closed, with nothing left running.

        The status after SIGTERM, SIGHUP, SIGUSR2 or a closed stdout is 85 when every job that ran has saved: the same command goes on;
        else 143, or 141.
        """
        with stoppable() as stops, self._board:
            try:
                while self._waiting or self._running:
                    check_output()
                    self._start_what_fits()
                    self._take_in_what_ended()
                    self._board.update(self._running, len(self._waiting))
                    if self._waiting or self._running:
                        time.sleep(self._options.poll_seconds)
            except (KeyboardInterrupt, Terminated, OutputClosed) as stop:
                how = "Ctrl-C" if isinstance(stop, KeyboardInterrupt) else str(stop)
                saved = self._stop_all(how, stops)
                if how != "Ctrl-C" and not self._waiting and not self.stopped:
                    return  # all jobs were in their last step
                status = CLOSED_STATUS if isinstance(stop, OutputClosed) else 143
                raise SystemExit(130 if how == "Ctrl-C" else PREEMPTED_STATUS if saved else status) from None
            finally:
                for pool in self._pools.values():
                    pool.give_up()
                for job in self._running:
                    job.kill()
                    job.release()

    def _start_what_fits(self) -> None:
        limit = self._options.max_parallel
        while self._waiting and (limit is None or len(self._running) < limit):
            found = self._next()
            if found is None:
                self._tell_waiting(self._waiting[0])
                return
            job, lease = found
            try:
                started = LocalJob(job, self._seal(job), self._options, lease, self._program)
            except (ConfigProblems, OSError) as problem:  # taken by another run since it was checked, or its disk is full
                lease.close()
                if isinstance(problem, OSError):
                    problem = ConfigProblems([unwritable(job.folder, problem, hint="a hydra.sweep.dir that can be written")])
                self.returns[job.number] = failed_return(job, problem)
                if self._many:  # of a single job Hydra says it
                    log.info("%s", self.returns[job.number]._return_value)
                continue
            self._running.append(started)
            devices = ",".join(d.entry for d in lease.devices) if job.run is not None and job.run.resources.gpus_per_node else ""
            where = f", GPUs {devices}" if devices else ""
            log.info("job %d: started, %s%s: %s", job.number, size_of(job), where, job.folder)
            self._board.add(started)
        if self._waiting:  # as many as max_parallel allows: nothing is kept from others for a job that may not start
            for pool in self._pools.values():
                pool.give_up()

    def _next(self) -> tuple[PreparedJob, Lease] | None:
        """The oldest job that fits what is free. The oldest of all is overtaken once a device at most; then what comes free is kept
        for it, so that a wide job is not starved by narrow ones."""
        head = self._waiting[0]
        if (lease := self._lease(self._size(head))) is not None:
            self._overtaken = 0
            return self._waiting.popleft(), lease
        if self._overtaken >= max(len(pool.devices) for pool in self._pools.values()):
            return None
        tried = {self._size(head)}
        for job in self._waiting:
            size = self._size(job)
            if size not in tried and (lease := self._lease(size, head=False)) is not None:
                self._overtaken += 1
                self._waiting.remove(job)
                return job, lease
            tried.add(size)
        return None

    def _size(self, job: PreparedJob) -> tuple[int, int]:
        return needed(job.run.resources if job.run else None, len(self._pools["core"].devices))

    def _lease(self, size: tuple[int, int], *, head: bool = True) -> Lease | None:
        gpus, cores = size
        if gpus:
            return self._pools["gpu"].take(gpus, head=head)
        lease = self._pools["core"].take(cores, head=head)
        if lease is not None:
            lease.devices = ()  # cores are counted, not bound: torch and the kernel place the threads
        return lease

    def _tell_waiting(self, job: PreparedJob) -> None:
        """Say it once when nothing of this launch holds the devices: another run of this user does."""
        now = time.monotonic()
        if self._waits_since is None or self._waits_since[0] != job.number:
            self._waits_since = (job.number, now)
        elif not self._running and self._waits_since[1] and now - self._waits_since[1] > _TELL_SECONDS:
            self._waits_since = (job.number, 0.0)
            gpus, cores = self._size(job)
            log.info(
                "job %d waits for %s: other runs of yours use them", job.number, counted(gpus, "GPU") if gpus else counted(cores, "core")
            )

    def _take_in_what_ended(self) -> None:
        for running in [r for r in self._running if r.done()]:
            self._board.remove(running)
            ret = running.finish(shown=self._board.shows_logs)
            self._running.remove(running)
            self.returns[running.job.number] = ret
            if isinstance(getattr(ret._return_value, "__cause__", None), Preempted):
                self.stopped.add(running.job.number)
            report(running, ret, in_full=self._many)
            self._after_each()

    def _stop_all(self, how: str, stops: list[int]) -> bool:
        """Returns whether there were jobs and all of them have saved, or were done by then. stops: signals; one more ends the wait."""
        if not stops:  # it was none
            stops.append(0)
        with suppress(OutputClosed):
            check_output(soon=True)
        for running in self._running:
            saves = running.job.run is not None and running.job.run.plan.checkpoint.enabled
            seconds = f", up to {running.shutdown_seconds:.0f} s; Ctrl-C again: at once" if saves else ""
            log.info("job %d: %s, %s%s", running.job.number, how, "saving and stopping" if saves else "stopping all ranks", seconds)
        if self._waiting:
            log.info("%s: %s not started", how, counted(len(self._waiting), "job"))
        left = list(self._running)
        while left and len(stops) < 2:
            for running in left:
                running.ask_to_stop(how)
            with suppress(OutputClosed):
                self._board.update(self._running, 0)
            left = [r for r in left if not r.done() and not r.overdue]
            time.sleep(self._options.poll_seconds)
        saved = []
        for running in self._running:
            if running.done() and (ret := running.finish(shown=self._board.shows_logs)).status is JobStatus.COMPLETED:
                self.returns[running.job.number] = ret  # it was in its last step
                saved.append(running)
                report(running, ret, in_full=self._many)
                continue
            running.kill()
            running.release()
            self.stopped.add(running.job.number)
            end = saved_and_stopped(read_results(running.paths))
            if end is None or not end.checkpoint:
                log.info("job %d: stopped: %s%s", running.job.number, running.job.folder, last_saved(running.job))
            else:
                saved.append(running)
                log.info("%s", preempted(running.job, end, how))
        every = bool(saved) and len(saved) == len(self._running)
        self._running.clear()
        return every


def size_of(job: PreparedJob) -> str:
    if job.run is None:
        return "one process"
    plan = job.run.plan
    return f"{counted(plan.topology.world_size, 'rank')}, {plan.topology.backend}, ZeRO stage {plan.zero.stage}"


def report(running: LocalJob, ret: JobReturn, *, in_full: bool) -> None:
    """One line for a job that has ended. in_full: and why it failed; of a single job Hydra says it."""
    job, paths = running.job, running.paths
    if ret.status is not JobStatus.COMPLETED:
        if isinstance(getattr(ret._return_value, "__cause__", None), Preempted):
            return  # told by what Hydra raises
        log.info("job %d: failed after %.0f s: %s", job.number, running.seconds, paths.root)
        if in_full:
            print(ret._return_value, file=sys.stderr, flush=True)
            was_shown(ret)
        return
    loss = ""
    with suppress(OSError, ValueError, KeyError, TypeError):  # the script keeps no summary
        loss = f", last loss {json.loads(paths.summary.read_text(encoding='utf-8'))['last_loss']:.4f}"
    title = " ".join(filter_overrides(list(job.overrides)))
    log.info("job %d: done in %.0f s%s: %s%s", job.number, running.seconds, loss, paths.root, f"  [{title}]" if title else "")
