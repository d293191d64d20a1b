"""Waiting for submitted jobs: what changes is told once, each end becomes a JobReturn, failures are shown as they come."""

from __future__ import annotations

import logging
import shlex
import signal
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from hydra.core.utils import JobReturn, JobStatus

from zerocfg.diagnostics import render_report
from zerocfg.errors import PREEMPTED_STATUS
from zerocfg.launch.follow import Follower
from zerocfg.launch.job import NodeOutcome
from zerocfg.launch.output import CLOSED_STATUS, OutputClosed, check_output
from zerocfg.launch.paths import JobPaths
from zerocfg.launch.prepare import PreparedJob
from zerocfg.launch.results import read_results, saved_and_stopped
from zerocfg.launch.returns import job_return, same_command, was_shown
from zerocfg.launch.slurm_options import SlurmOptions
from zerocfg.launch.slurm_script import SLURM_DIR
from zerocfg.launch.slurm_state import JobState, SlurmJob, exit_code, keep_jobs, query, with_end
from zerocfg.units import counted

log = logging.getLogger("zerocfg.launch")
_SETTLE_SECONDS = 10.0
"""How long a file of an ended job may take to appear here: network file systems cache what they know of a folder."""
_FEW = 8
"""Up to so many jobs each change of state is told; of more, only how many are where."""
_LAST_LINES = 15


def wait_for(
    jobs: Sequence[PreparedJob], submitted: Mapping[int, SlurmJob], sweep: Path, options: SlurmOptions, states: dict[int, str]
) -> dict[int, JobReturn]:
    """A JobReturn for each job, by number. Ctrl-C ends the wait and leaves the jobs to SLURM: SystemExit(130); 141 when stdout was
    closed.

    states: SLURM's word for each job, kept up to date.
    """
    watch = Watch([submitted[job.number] for job in jobs])
    returns: dict[int, JobReturn] = {}
    with ExitStack() as stack:
        follower = None
        if len(jobs) == 1:
            total = jobs[0].run.plan.train.steps if jobs[0].run is not None else 0
            follower = stack.enter_context(Follower(JobPaths(jobs[0].folder), total_steps=total, bar=options.progress))
        try:
            while len(returns) < len(jobs):
                check_output()
                watch.poll()
                states.update({job.number: watch.states[submitted[job.number].slurm_id].state for job in jobs if job.number not in returns})
                if follower is not None:
                    follower.pump()
                for job in jobs:
                    record = submitted[job.number]
                    if job.number not in returns and (state := watch.states[record.slurm_id]).ended:
                        if follower is not None:
                            follower.pump()
                        returns[job.number] = _finish(job, record, state, sweep, followed=follower is not None)
                        if state.state == "COMPLETED" and returns[job.number].status is not JobStatus.COMPLETED:
                            states[job.number] = "FAILED"
                        keep_jobs(sweep, [replace(record, last=state)])
                if len(returns) < len(jobs):
                    time.sleep(options.poll_seconds)
        except (KeyboardInterrupt, OutputClosed) as stop:
            left = [submitted[job.number].slurm_id for job in jobs if job.number not in returns]
            log.info(
                "%s: %s under SLURM; `zerocfg jobs %s` shows what becomes of %s, `scancel %s` ends %s",
                stop if isinstance(stop, OutputClosed) else "Ctrl-C",
                "1 job goes on" if len(left) == 1 else f"{len(left)} jobs go on",
                shlex.quote(str(sweep)),
                "it" if len(left) == 1 else "them",
                " ".join(left),
                "it" if len(left) == 1 else "them",
            )
            raise SystemExit(CLOSED_STATUS if isinstance(stop, OutputClosed) else 130) from None
    if len(jobs) > 1:
        failed = sum(ret.status is not JobStatus.COMPLETED for ret in returns.values())
        log.info("%d of %d jobs done%s", len(jobs) - failed, len(jobs), f", {failed} failed" if failed else "")
    return returns


class Watch:
    """States of some jobs. One squeue a look, however many there are."""

    def __init__(self, jobs: Sequence[SlurmJob]) -> None:
        self._jobs = jobs
        self.states: dict[str, JobState] = {job.slurm_id: JobState("SUBMITTED") for job in jobs}
        self._told: object = None
        self._silent = False

    def poll(self) -> None:
        """Look, and log what is new. A controller that does not answer leaves all as it was."""
        waiting = [job for job in self._jobs if not self.states[job.slurm_id].ended]
        said = query({job.slurm_id for job in waiting})
        if said is None:
            if not self._silent:
                log.warning("SLURM's controller does not answer; waiting for it")
            self._silent = True
            said = {job.slurm_id: self.states[job.slurm_id] for job in waiting}
        elif self._silent:
            self._silent = False
            log.info("SLURM's controller answers again")
        before = dict(self.states)
        for job in waiting:
            self.states[job.slurm_id] = with_end(job, said.get(job.slurm_id), before[job.slurm_id])
        self._tell(before)

    def _tell(self, before: Mapping[str, JobState]) -> None:
        if len(self._jobs) > _FEW:
            counts = Counter(state.state for state in self.states.values())
            if counts != self._told:
                log.info("%s", ", ".join(f"{count} {state}" for state, count in sorted(counts.items())))
                self._told = counts
            return
        for job in self._jobs:
            now, then = self.states[job.slurm_id], before[job.slurm_id]
            # why it waits changes often while it waits for another start
            same = (now.state, now.restarts) == (then.state, then.restarts) and (now.reason == then.reason or now.state == "REQUEUED")
            if now.ended or now.state == "COMPLETING" or same or (now.state == "PENDING" and now.reason == ""):
                continue
            where = f" on {now.nodes}" if now.nodes else f" ({now.reason})" if now.reason else ""
            again = f", restart {now.restarts}" if now.restarts else ""
            log.info("job %d: %s%s%s", job.number, now.state, where, again)


_STOPPED = {
    "CANCELLED": "cancelled in SLURM (scancel)",
    "TIMEOUT": "time limit",
    "DEADLINE": "deadline",
    "NODE_FAIL": "a node was lost",
    "BOOT_FAIL": "a node did not boot",
    "OUT_OF_MEMORY": "out of the memory that SLURM gave it",
    "PREEMPTED": "preempted by another job",
    "REVOKED": "revoked by SLURM",
    "LOST": "SLURM no longer knows it, and it has left no word: killed, or its files are not visible here",
}

_ASKED = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2})
"""Signals that somebody sends on purpose, hydra.launcher.signal among them."""


def outcome(job: PreparedJob, record: SlurmJob, state: JobState, sweep: Path) -> NodeOutcome | str:
    """What `job_return` needs to know of the end."""
    if state.exit_status == PREEMPTED_STATUS and state.state == "PREEMPTED":
        return NodeOutcome(PREEMPTED_STATUS, state.reason)
    if state.state in _STOPPED:
        detail = ", ".join(filter(None, (f"SLURM job {record.slurm_id} {state.state}", state.reason, state.nodes)))
        return NodeOutcome(1, f"{_STOPPED[state.state]} ({detail}){_remedy(job, state)}")
    status, code = state.exit_status, ""
    if status is None:
        # nothing of the script's own: SLURM has it as status:signal
        code = exit_code(record.slurm_id)
        status = _status(code, state)
    if status and not _ranks_started(JobPaths(job.folder)):
        return _batch_failure(record, state, code or f"{status}:0", sweep)
    ranks = read_results(JobPaths(job.folder))
    if status and len(ranks) == job.world_size and all(rank.ok for rank in ranks.values()):
        # torchrun takes a signal for a failure, whatever its ranks made of it
        last = _tail(JobPaths(job.folder).starter_log)
        return f"all {counted(job.world_size, 'rank')} returned, but torchrun ended with exit status {status}: by a signal?\n{last}"
    if status - 128 in _ASKED:
        return NodeOutcome(1, f"{signal.Signals(status - 128).name} (SLURM job {record.slurm_id} {state.state})")
    # a shell's way to say that a signal has ended it
    return NodeOutcome(128 - status if status > 128 else status)


def _remedy(job: PreparedJob, state: JobState) -> str:
    """Of a time limit that nothing was saved at."""
    if state.state != "TIMEOUT" or saved_and_stopped(read_results(JobPaths(job.folder))) is not None:
        return ""
    longer = "a longer hydra.launcher.timeout_min"
    if job.run is None:
        return f"\n  try: {longer}"
    if not job.run.plan.checkpoint.enabled:
        return f"\n  try: {longer}; or checkpoint=on_stop: it saves before the limit, and goes on in another start"
    again = f"\n  go on from the last checkpoint: {same_command(job)}"
    return f"{again}\n  try: a longer hydra.launcher.signal_delay_s: time for a step and a checkpoint"


def _status(code: str, state: JobState) -> int:
    number, _, signal = code.partition(":")
    if state.state == "COMPLETED":
        return 0
    return -int(signal) if signal.isdigit() and int(signal) else int(number) if number.isdigit() and int(number) else 1


def _batch_failure(record: SlurmJob, state: JobState, code: str, sweep: Path) -> str:
    """The ranks never started: the batch script's log says why, if there is one."""
    log_file = sweep / SLURM_DIR / record.batch_log
    none = "(no log: the node cannot write there; hydra.sweep.dir must be on a file system that all nodes share)"
    empty = "(nothing: a line of hydra.launcher.setup ended the script, or something killed it)"
    lines = _tail(log_file) or (empty if log_file.is_file() else none)
    return f"SLURM job {record.slurm_id} {state.state} {state.reason} exit code {code} on {state.nodes or 'no node'}\n{log_file}:\n{lines}"


def _ranks_started(paths: JobPaths) -> bool:
    """Whether anything was written by torchrun or a rank; what an earlier run has left is out of the way by then."""
    return any(path.is_file() and path.stat().st_size > 0 for path in (paths.starter_log, paths.rank_log(0))) or bool(read_results(paths))


def _tail(path: Path, lines: int = _LAST_LINES) -> str:
    try:
        return "\n".join(path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])
    except OSError:
        return ""


def _finish(job: PreparedJob, record: SlurmJob, state: JobState, sweep: Path, *, followed: bool) -> JobReturn:
    paths = JobPaths(job.folder)
    if state.state == "COMPLETED":
        _settle(paths, job.world_size)
    ret, warnings = job_return(job, paths, outcome(job, record, state, sweep), shown=True)
    if warnings:
        print(render_report(warnings), file=sys.stderr, flush=True)
    if ret.status is JobStatus.COMPLETED:
        log.info("job %d: done: %s", job.number, job.folder)
        return ret
    print(failure(job, record, state, ret, sweep, followed=followed), file=sys.stderr, flush=True)
    was_shown(ret)
    return ret


def _settle(paths: JobPaths, world_size: int) -> None:
    deadline = time.monotonic() + _SETTLE_SECONDS
    while len(list(paths.results.glob("result_*.pkl"))) < world_size and time.monotonic() < deadline:
        time.sleep(0.2)


def failure(job: PreparedJob, record: SlurmJob, state: JobState, ret: JobReturn, sweep: Path, *, followed: bool) -> str:
    """What is shown of a failed job: rank, error, log, SLURM's word, last lines."""
    problem = ret._return_value
    paths = JobPaths(job.folder)
    errors = sorted((r for r in read_results(paths).values() if not r.ok), key=lambda r: r.time)
    lines = [getattr(problem, "summary", str(problem))]
    status = "" if state.exit_status is None else f", exit status {state.exit_status}"
    where = f" on {state.nodes}" if state.nodes else ""
    lines.append(f"  SLURM job {record.slurm_id}: {state.state}{status}{where}")
    if not (followed and errors and errors[0].rank == 0) and state.state != "PREEMPTED":
        last = _last_words(problem, paths, sweep / SLURM_DIR / record.batch_log, errors[0].rank if errors else None)
        lines += [f"    {line}" for line in last]
    return "\n".join(lines)


def _last_words(problem: object, paths: JobPaths, batch_log: Path, rank: int | None) -> list[str]:
    """Of the failing rank; where none has said anything, of whoever has: torchrun, rank 0, the batch script."""
    if rank is not None:
        return _tail(paths.rank_log(rank)).splitlines()
    said = getattr(problem, "traceback", "").splitlines()
    if said:
        # a preflight's report begins with what failed
        return said if paths.preflight_report.is_file() else said[-_LAST_LINES:]
    return [*_tail(paths.rank_log(0), 8).splitlines(), *_tail(batch_log, 8).splitlines()]
