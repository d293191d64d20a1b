"""The local launcher: check all jobs, then run them as devices come free."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hydra.core.singleton import Singleton
from hydra.core.utils import JobReturn, JobStatus, configure_log, filter_overrides, setup_globals
from hydra.errors import CompactHydraException
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from zerocfg.diagnostics import ConfigProblems
from zerocfg.errors import PREEMPTED_STATUS, ZerocfgError
from zerocfg.facts import Detected
from zerocfg.launch.board import Board
from zerocfg.launch.folders import check_free, claimed, fill, remove_unused
from zerocfg.launch.hydra_state import hydra_config
from zerocfg.launch.local import PROGRAM, report_kept, script_of
from zerocfg.launch.options import LocalOptions
from zerocfg.launch.payload import Task, frozen, seal
from zerocfg.launch.pool import Pool, cores, lock_folder, visible_gpus
from zerocfg.launch.prepare import Infeasible, Prepared, PreparedJob, prepare
from zerocfg.launch.queue import LocalQueue
from zerocfg.launch.returns import blank_return, earlier_return, was_preempted
from zerocfg.launch.slurm_state import check_active
from zerocfg.launch.sweep_results import SweepRow, results_table, sweep_row, write_results

log = logging.getLogger("zerocfg.launch")
__all__ = ["PROGRAM", "LaunchRefused", "Sealer", "launch", "refusal", "skipped_return", "write_table"]


class LaunchRefused(ZerocfgError, CompactHydraException):  # type: ignore[misc]
    """Nothing was started; str() is the report. Hydra prints it without a stack and ends with status 1."""


def launch(
    *,
    context: HydraContext,
    task_function: TaskFunction,
    config: DictConfig,
    options: LocalOptions,
    job_overrides: Sequence[Sequence[str]],
    initial_job_idx: int,
    fresh_folder: bool = False,
) -> Sequence[JobReturn]:
    """Run each job and return its JobReturn, in order. Raises LaunchRefused before anything is started.

    fresh_folder: hydra.sweep.dir did not exist before Hydra made it for this launch.
    """
    from zerocfg.compose.sweep import SweepComposer
    from zerocfg.probe import detect

    setup_globals()
    configure_log(config.hydra.hydra_logging, config.hydra.verbose)
    sweep = Path(str(config.hydra.sweep.dir))
    prepared = prepare(
        config,
        job_overrides,
        initial_job_idx,
        compose=SweepComposer(context.config_loader, config).compose_job,
        detect=detect,
        environ=os.environ,
        start=not options.dry_run,
        skip_infeasible=options.on_infeasible == "skip",
    )
    folders = [job.folder for job in prepared.jobs]
    if busy := [*check_free(folders), *check_active(folders, sweep)]:
        prepared.report.append(("", busy))
    seals = Sealer(context, task_function)
    problem = refusal(prepared, len(job_overrides)) if prepared.refused else ""
    if not problem:
        try:
            for job in prepared.jobs[:1]:
                seals.seal(job)  # what cannot travel is the function's, the same for all jobs
        except ConfigProblems as problems:
            problem = f"{problems}\nnothing was started"
    if problem:
        if fresh_folder:
            remove_unused(sweep)
        raise LaunchRefused(problem)
    if report := prepared.render():
        print(report, file=sys.stderr, flush=True)

    returns = {point.number: skipped_return(point) for point in prepared.infeasible}
    states = dict.fromkeys(returns, "infeasible")
    jobs = list(prepared.jobs)
    if options.retry_failed:
        for job in prepared.jobs:
            if (ret := earlier_return(job)) is not None:
                returns[job.number], states[job.number] = ret, "finished before"
                jobs.remove(job)
        log.info("%d of %d jobs finished before; %d to run", len(prepared.jobs) - len(jobs), len(prepared.jobs), len(jobs))
    if options.dry_run:
        returns |= {job.number: _dry(job, seals.seal(job), options) for job in jobs}
        return [returns[number] for number in sorted(returns)]

    queue = LocalQueue(
        jobs,
        seal=seals.seal,
        options=options,
        pools=pools_for(jobs, detect, os.environ),
        board=Board(len(job_overrides), bar=options.progress),
        after_each=lambda: configure_log(config.hydra.hydra_logging, config.hydra.verbose),
    )
    try:
        queue.run()
    finally:
        returns |= queue.returns
        states |= dict.fromkeys(queue.stopped, "stopped")
        if len(job_overrides) > 1 or initial_job_idx > 0:
            write_table(sweep, prepared, returns, states, show=len(job_overrides) > 1)
    made = [returns[number] for number in sorted(returns)]
    if len(made) == 1:
        leave_preempted(made[0])
    return made


def leave_preempted(ret: JobReturn) -> None:
    """Of a single job that was stopped from elsewhere and has saved: leave with the status that says so, not as a failure."""
    if was_preempted(ret):
        print(ret._return_value.summary, file=sys.stderr, flush=True)
        raise SystemExit(PREEMPTED_STATUS)


def pools_for(jobs: Sequence[PreparedJob], detect: Callable[[], Detected], environ: Mapping[str, str]) -> dict[str, Pool]:
    """Cores, and GPUs where a job needs any, under the locks that all launchers of the user share."""
    folder = lock_folder(environ)
    machine = detect()
    pools = {"core": Pool("core", cores(machine.cpus), folder)}
    if any(job.run is not None and job.run.resources.gpus_per_node for job in jobs):
        from zerocfg.launch.closeness import closest_of

        gpus = visible_gpus(machine, environ)
        pools["gpu"] = Pool("gpu", gpus, folder, closest_of(machine))
    return pools


def skipped_return(point: Infeasible) -> JobReturn:
    """A sweeper gets NaN for a point that cannot run."""
    ret = JobReturn(overrides=list(point.overrides), cfg=point.config, task_name=None)
    ret.status, ret.return_value = JobStatus.COMPLETED, float("nan")
    return ret


def write_table(sweep: Path, prepared: Prepared, returns: Mapping[int, JobReturn], states: Mapping[int, str], *, show: bool) -> None:
    """results.csv of the whole sweep, jobs of earlier calls of this sweep included."""
    from zerocfg.launch.sweep_results import read_rows

    rows: dict[int, SweepRow] = {row.job: row for row in read_rows(sweep)}
    for job in prepared.jobs:
        ret = returns.get(job.number)
        ended = "not started" if ret is None else "done" if ret.status is JobStatus.COMPLETED else "failed"
        rows[job.number] = sweep_row(job.number, states.get(job.number, ended), filter_overrides(list(job.overrides)), job.folder)
    for point in prepared.infeasible:
        rows[point.number] = SweepRow(job=point.number, state="infeasible", overrides=" ".join(filter_overrides(list(point.overrides))))
    ordered = [rows[number] for number in sorted(rows)]
    path = write_results(sweep, ordered)
    if show:
        log.info("results: %s\n%s", path, results_table(ordered))


def refusal(prepared: Prepared, total: int) -> str:
    """The report of a launch that starts nothing."""
    return f"{prepared.render()}\n\nnothing was started" + (f" ({total} jobs)" if total > 1 else "")


class Sealer:
    """Makes each job's payload just before it is needed."""

    def __init__(self, context: HydraContext, function: TaskFunction) -> None:
        self._callbacks = context.callbacks
        self._function = function
        self._singletons = Singleton.get_state()

    def seal(self, job: PreparedJob) -> bytes:
        with hydra_config(job.config):
            config = frozen(job.config)
            env_set = {str(k): str(v) for k, v in job.config.hydra.job.env_set.items()}
        task = Task(function=self._function, config=config, singletons=self._singletons, callbacks=self._callbacks)
        return seal(task, env_set=env_set)


def _dry(job: PreparedJob, payload: bytes, options: LocalOptions) -> JobReturn:
    with claimed(job.folder) as paths:
        report_kept(job, fill(job, paths, payload, PROGRAM, options.python or sys.executable))
    log.info("job %d: dry run, nothing started: %s", job.number, script_of(job))
    ret = blank_return(job)
    ret.status, ret.return_value = JobStatus.COMPLETED, None
    return ret
