"""hydra/launcher=zerocfg_slurm: check all jobs, write their folders, submit one array a shape, wait for them or not."""

from __future__ import annotations

import logging
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn, JobStatus

from zerocfg.diagnostics import ConfigProblems, Diagnostic
from zerocfg.emit import replace_text
from zerocfg.errors import PREEMPTED_STATUS
from zerocfg.launch.fitness import write_preflight
from zerocfg.launch.folders import claimed, fill
from zerocfg.launch.local import PROGRAM, report_kept
from zerocfg.launch.opening import Asked, LaunchRefused, begin
from zerocfg.launch.prepare import PreparedJob, uncollected
from zerocfg.launch.returns import blank_return, failed_return, was_preempted
from zerocfg.launch.slurm_cluster import Cluster, Unread, missing_commands, read_cluster
from zerocfg.launch.slurm_options import SlurmOptions
from zerocfg.launch.slurm_place import Placement
from zerocfg.launch.slurm_preflight import check_reachable
from zerocfg.launch.slurm_script import SLURM_DIR, Start, sbatch_script
from zerocfg.launch.slurm_state import SlurmJob, keep_jobs, word
from zerocfg.launch.slurm_submit import submit
from zerocfg.launch.slurm_wait import wait_for
from zerocfg.passes.lower.slurm import SlurmShape
from zerocfg.units import counted

log = logging.getLogger("zerocfg.launch")


def check_cluster(options: SlurmOptions, cluster: Cluster | Unread) -> list[Diagnostic]:
    """ZC724 no SLURM here, ZC735 it does not answer. Nothing for a dry run, which needs none."""
    return [] if options.dry_run else list(check_reachable(missing_commands(), cluster))


def launch(asked: Asked, given: Mapping[str, Any]) -> Sequence[JobReturn]:
    """Submit the jobs and return a JobReturn for each, in order. Raises LaunchRefused before anything is submitted.

    given: hydra.launcher.
    """
    options, problems = asked.options(SlurmOptions, given)
    cluster = read_cluster()
    silent = check_cluster(options, cluster)
    placement = Placement(options, cluster, needs_cluster=not silent)
    sweep = begin(
        asked,
        options,
        problems=[*problems, *silent],
        detect=lambda: placement.machine.detected,
        place=placement.check,
        reachable=not silent,
    )
    attempt = Submission(options, asked.sweep, cluster, sweep.seal)
    started = not options.dry_run
    try:
        sweep.returns |= attempt.run(sweep.jobs, placement.shapes)
    except LaunchRefused:
        started = False  # what an earlier launch has written of its results stands
        raise
    finally:
        if started:
            sweep.states |= {number: word(state) for number, state in attempt.states.items()}
            sweep.write_table(show=options.wait)
    made = sweep.in_order()
    if len(made) == 1 and was_preempted(made[0]):
        raise SystemExit(PREEMPTED_STATUS)  # told already
    return made


@dataclass(frozen=True)
class Submission:
    """Jobs that have been checked on their way into SLURM."""

    options: SlurmOptions
    sweep: Path
    cluster: Cluster | Unread
    seal: Callable[[PreparedJob], bytes]
    """Makes a job's payload; empty for a program that needs none."""
    program: tuple[str, ...] = PROGRAM
    """What each rank runs, as torchrun takes it."""
    states: dict[int, str] = field(default_factory=dict)
    """SLURM's, by hydra.job.num, as far as known."""

    def run(self, jobs: Sequence[PreparedJob], shapes: Mapping[int, SlurmShape]) -> dict[int, JobReturn]:
        """Write the folders, submit, and wait unless told otherwise. A JobReturn a job, by number; shapes: by number too.

        Raises LaunchRefused when sbatch takes none of them.
        """
        returns: dict[int, JobReturn] = {}
        if not jobs:
            return returns
        (self.sweep / SLURM_DIR).mkdir(parents=True, exist_ok=True)
        with uncollected():
            ready = list(self._filled(jobs, returns))
        submitted: dict[int, SlurmJob] = {}
        refused: list[ConfigProblems] = []
        for shape, array in arrays([(job, shapes[job.number]) for job in ready], self._max_array()):
            text = sbatch_script(shape, [job.folder for job in array], self.sweep / SLURM_DIR, self._start(array[0]))
            if self.options.dry_run:
                self._show(array, text)
                continue
            try:
                submitted |= self._submit(shape, array, text)
            except ConfigProblems as problems:
                refused.append(problems)
                returns |= {job.number: failed_return(job, problems) for job in array}
        if refused and not submitted:
            raise LaunchRefused(f"{ConfigProblems([found for report in refused for found in report.diagnostics])}\nnothing was started")
        for report in refused:
            print(report, file=sys.stderr, flush=True)
        if self.options.dry_run:
            returns |= {job.number: _nothing_done(job) for job in ready}
        elif self.options.wait:
            returns |= wait_for([job for job in ready if job.number in submitted], submitted, self.sweep, self.options, self.states)
        else:
            with uncollected():
                returns |= {job.number: SubmittedReturn.of(job, submitted[job.number]) for job in ready if job.number in submitted}
            log.info(
                "not waiting (hydra.launcher.wait=false); `zerocfg jobs %s` shows states and collects results", shlex.quote(str(self.sweep))
            )
            self.states.update(dict.fromkeys(submitted, "SUBMITTED"))
        return returns

    @property
    def _python(self) -> str:
        return self.options.python or sys.executable

    def _max_array(self) -> int:
        return self.cluster.max_array_size if isinstance(self.cluster, Cluster) else 1001

    def _filled(self, jobs: Sequence[PreparedJob], returns: dict[int, JobReturn]) -> Iterator[PreparedJob]:
        """Those whose folders could be written."""
        for job in jobs:
            try:
                self._fill(job)
            except ConfigProblems as problems:  # taken by another run since it was checked
                returns[job.number] = failed_return(job, problems)
            else:
                yield job

    def _fill(self, job: PreparedJob) -> None:
        with claimed(job.folder) as paths:
            kept = fill(job, paths, self.seal(job), self.program, self._python, dry=self.options.dry_run)
            if self.options.preflight and job.run is not None:
                write_preflight(job.run, paths, self._python)
        report_kept(job, kept)

    def _start(self, job: PreparedJob) -> Start:
        program = () if job.run is not None else self.program
        return Start(python=self._python, home=os.getcwd(), program=program, preflight=self.options.preflight)

    def _show(self, array: Sequence[PreparedJob], text: str) -> None:
        path = self.sweep / SLURM_DIR / f"job_{array[0].number}.sh"
        replace_text(path, text, mode=0o700)
        log.info("%s: dry run, nothing submitted: %s", numbers([job.number for job in array]), path)
        print(text, end="", flush=True)

    def _submit(self, shape: SlurmShape, array: Sequence[PreparedJob], text: str) -> dict[int, SlurmJob]:
        job_id = submit(text, self.sweep / SLURM_DIR, shape)
        records = {
            job.number: SlurmJob(
                number=job.number,
                folder=str(job.folder),
                slurm_id=f"{job_id}_{index}" if len(array) > 1 else job_id,
                overrides=job.overrides,
                world_size=job.world_size,
            )
            for index, job in enumerate(array)
        }
        keep_jobs(self.sweep, records.values())
        kind = f"array {job_id}" if len(array) > 1 else f"job {job_id}"
        log.info("%s: submitted as SLURM %s, %s", numbers([job.number for job in array]), kind, _size(array[0], shape))
        return records


def arrays(jobs: Sequence[tuple[PreparedJob, SlurmShape]], max_array_size: int) -> Iterator[tuple[SlurmShape, list[PreparedJob]]]:
    """Jobs of the same shape together, in order, no more than an array may have."""
    groups: dict[tuple[SlurmShape, bool], list[PreparedJob]] = {}
    for job, shape in jobs:
        groups.setdefault((shape, job.run is not None), []).append(job)
    most = max(1, max_array_size)
    for (shape, _), group in groups.items():
        for first in range(0, len(group), most):
            yield shape, group[first : first + most]


def numbers(of: Sequence[int]) -> str:
    """[0, 1, 2, 5] -> "jobs 0-2, 5"."""
    runs: list[list[int]] = []
    for number in sorted(of):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    text = ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
    return f"job{'s' if len(of) > 1 else ''} {text}"


def _size(job: PreparedJob, shape: SlurmShape) -> str:
    nodes = f"{counted(shape.nodes, 'node')} a job"
    if job.run is None:
        return f"{nodes}, one process"
    plan = job.run.plan
    return f"{nodes}, {counted(plan.topology.world_size, 'rank')}, {plan.topology.backend}, ZeRO stage {plan.zero.stage}"


def _nothing_done(job: PreparedJob) -> JobReturn:
    ret = blank_return(job)
    ret.status, ret.return_value = JobStatus.COMPLETED, None
    return ret


@dataclass(frozen=True, slots=True)
class Submitted:
    """In place of a return value that is not known yet."""

    slurm_id: str
    folder: str
    state: str = "SUBMITTED"

    def __str__(self) -> str:
        return f"submitted as SLURM job {self.slurm_id}: {self.folder}"


@dataclass
class SubmittedReturn(JobReturn):  # type: ignore[misc]
    """Of a job that nobody waits for: its status is not known, its value says what was submitted."""

    @classmethod
    def of(cls, job: PreparedJob, record: SlurmJob) -> SubmittedReturn:
        blank = blank_return(job)
        ret = cls(**{f.name: getattr(blank, f.name) for f in fields(blank)})
        ret._return_value = Submitted(record.slurm_id, record.folder)
        return ret

    @property
    def return_value(self) -> Any:
        """A `Submitted`: Hydra's sweeper reads it of every job, and would take an unknown status for a failure."""
        return self._return_value
