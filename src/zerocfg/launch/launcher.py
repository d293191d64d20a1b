"""The local launcher: check all jobs, then run them as devices come free."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hydra.core.utils import JobReturn, JobStatus

from zerocfg.errors import PREEMPTED_STATUS
from zerocfg.facts import Detected
from zerocfg.launch.board import Board
from zerocfg.launch.folders import claimed, fill
from zerocfg.launch.local import PROGRAM, report_kept, script_of
from zerocfg.launch.opening import Asked, begin
from zerocfg.launch.options import LocalOptions
from zerocfg.launch.pool import Pool, cores, lock_folder, visible_gpus
from zerocfg.launch.prepare import PreparedJob, uncollected
from zerocfg.launch.queue import LocalQueue
from zerocfg.launch.returns import blank_return, was_preempted

log = logging.getLogger("zerocfg.launch")


def launch(asked: Asked, given: Mapping[str, Any]) -> Sequence[JobReturn]:
    """Run each job and return its JobReturn, in order. Raises LaunchRefused before anything is started. given: hydra.launcher."""
    from zerocfg.probe import detect

    options, problems = asked.options(LocalOptions, given)
    sweep = begin(asked, options, problems=problems, detect=detect)
    if options.dry_run:
        with uncollected():
            sweep.returns |= {job.number: _dry(job, sweep.seal(job), options) for job in sweep.jobs}
        return sweep.in_order()
    queue = LocalQueue(
        sweep.jobs,
        seal=sweep.seal,
        options=options,
        pools=pools_for(sweep.jobs, detect, os.environ),
        board=Board(len(asked.job_overrides), bar=options.progress),
        after_each=asked.configure_log,
    )
    try:
        queue.run()
    finally:
        sweep.returns |= queue.returns
        sweep.states |= dict.fromkeys(queue.stopped, "stopped")
        sweep.write_table(show=True)
    made = sweep.in_order()
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


def _dry(job: PreparedJob, payload: bytes, options: LocalOptions) -> JobReturn:
    with claimed(job.folder) as paths:
        report_kept(job, fill(job, paths, payload, PROGRAM, options.python or sys.executable, dry=True))
    log.info("job %d: dry run, nothing started: %s", job.number, script_of(job))
    ret = blank_return(job)
    ret.status, ret.return_value = JobStatus.COMPLETED, None
    return ret
