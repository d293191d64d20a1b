"""The local launcher: check all jobs, then run one after another."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from hydra.core.singleton import Singleton
from hydra.core.utils import JobReturn, JobStatus, configure_log, filter_overrides, setup_globals
from hydra.errors import CompactHydraException
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from zerocfg.diagnostics import ConfigProblems, render_report
from zerocfg.emit import COMPILED, LAUNCH, is_secret
from zerocfg.errors import ZerocfgError
from zerocfg.launch.executors import submit_local
from zerocfg.launch.folders import check_free, claimed, fill, remove_unused
from zerocfg.launch.follow import Follower
from zerocfg.launch.gpus import allocate
from zerocfg.launch.hydra_state import hydra_config
from zerocfg.launch.job import NodeJob, NodeOutcome
from zerocfg.launch.options import LocalOptions
from zerocfg.launch.paths import JOB_TOKEN, PAYLOAD, JobPaths
from zerocfg.launch.payload import Task, frozen, seal
from zerocfg.launch.prepare import Prepared, PreparedJob, prepare
from zerocfg.launch.processes import ProcessId, end_all
from zerocfg.launch.returns import blank_return, failed_return, job_return

log = logging.getLogger("zerocfg.launch")
PROGRAM = ("-m", "zerocfg.launch.worker", PAYLOAD)
_STOP_MARGIN_SECONDS = 15.0


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
    prepared = prepare(
        config,
        job_overrides,
        initial_job_idx,
        compose=SweepComposer(context.config_loader, config).compose_job,
        detect=detect,
        environ=os.environ,
        start=not options.dry_run,
    )
    if busy := list(check_free([job.folder for job in prepared.jobs])):
        prepared.report.append(("", busy))
    if prepared.refused:
        if fresh_folder:
            remove_unused(Path(str(config.hydra.sweep.dir)))
        raise LaunchRefused(refusal(prepared, len(job_overrides)))
    if report := prepared.render():
        print(report, file=sys.stderr, flush=True)
    seals = Sealer(context, task_function)
    try:
        for job in prepared.jobs[:1]:
            seals.seal(job)  # what cannot travel is the function's, the same for all jobs
    except ConfigProblems as problems:
        if fresh_folder:
            remove_unused(Path(str(config.hydra.sweep.dir)))
        raise LaunchRefused(f"{problems}\nnothing was started") from None
    found = len(detect().gpus) if any(j.run is not None and j.run.resources.gpus_per_node for j in prepared.jobs) else 0
    returns = []
    for job in prepared.jobs:
        try:
            payload = seals.seal(job)
            returns.append(_dry(job, payload, options) if options.dry_run else _run(job, payload, options, found))
        except ConfigProblems as problems:  # taken by another run since it was checked
            returns.append(failed_return(job, problems))
        configure_log(config.hydra.hydra_logging, config.hydra.verbose)
    return returns


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
        _report_kept(job, fill(job, paths, payload, PROGRAM, options.python or sys.executable))
    log.info("job %d: dry run, nothing started: %s", job.number, _script(job))
    ret = blank_return(job)
    ret.status, ret.return_value = JobStatus.COMPLETED, None
    return ret


def _run(job: PreparedJob, payload: bytes, options: LocalOptions, gpus: int) -> JobReturn:
    python = options.python or sys.executable
    token = uuid.uuid4().hex
    started = time.monotonic()
    with claimed(job.folder) as paths:
        _report_kept(job, fill(job, paths, payload, PROGRAM, python))
        node = NodeJob(
            folder=str(job.folder),
            command=("/bin/sh", str(_script(job))) if job.run is not None else (python, "-u", *PROGRAM),
            cwd=os.getcwd(),
            environment=allocate(job.run.resources if job.run else None, os.environ, gpus).environment,
            launcher=ProcessId.own(),
            shutdown_seconds=(job.run.plan.torchrun.shutdown_timeout if job.run else 10) + _STOP_MARGIN_SECONDS,
        )
        total = job.run.plan.train.steps if job.run is not None else 0
        with _stoppable(), Follower(paths, total_steps=total, bar=options.progress) as follower:
            submitted: Any = None
            try:
                submitted = submit_local(
                    node, paths, python=python, timeout_min=options.timeout_min, environment=_hidden_environment(job, token)
                )
                log.info("job %d: started, %s: %s", job.number, _size(job), job.folder)
                while not submitted.done():
                    follower.pump()
                    time.sleep(options.poll_seconds)
            except (KeyboardInterrupt, _Terminated) as stop:
                how = "Ctrl-C" if isinstance(stop, KeyboardInterrupt) else "SIGTERM"
                log.info("job %d: %s, stopping all ranks", job.number, how)
                _stop(submitted, follower, node.shutdown_seconds, options.poll_seconds)
                end_all(token, but=(os.getpid(),), grace=0.0)
                log.info("job %d: stopped: %s", job.number, job.folder)
                raise SystemExit(130 if isinstance(stop, KeyboardInterrupt) else 143) from None
            finally:
                end_all(token, but=(os.getpid(),))
        ret, warnings = job_return(job, paths, _outcome(submitted), shown=True)
    if warnings:
        print(render_report(warnings), file=sys.stderr, flush=True)
    _report(job, paths, ret, time.monotonic() - started)
    return ret


def _outcome(submitted: Any) -> NodeOutcome | str:
    problem = submitted.exception()
    if problem is not None:
        return str(problem)
    outcome = submitted.result()
    assert isinstance(outcome, NodeOutcome)
    return outcome


class _Terminated(BaseException):
    """SIGTERM or SIGHUP to the launcher."""


@contextmanager
def _stoppable() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into an exception: without it the launcher would die with its ranks still running."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise _Terminated

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop(submitted: Any, follower: Follower, seconds: float, poll: float) -> None:
    """Ask submitit's controller to end the job, and wait. A second Ctrl-C ends the wait."""
    deadline = time.monotonic() + seconds
    asked = 0.0
    try:
        while submitted is not None and not submitted.done() and time.monotonic() < deadline:
            if time.monotonic() - asked > 2.0:
                # again: submitit ignores it until the job's own handler is in place
                asked = time.monotonic()
                os.kill(int(submitted.job_id), signal.SIGTERM)
            follower.pump()
            time.sleep(poll)
    except (KeyboardInterrupt, _Terminated, ProcessLookupError):
        return


def _hidden_environment(job: PreparedJob, token: str) -> dict[str, str]:
    """Secrets of the config's env go by the processes' environment alone."""
    secrets = {name: value for name, value in (job.run.environment if job.run else {}).items() if is_secret(name)}
    return {**secrets, JOB_TOKEN: token}


def _script(job: PreparedJob) -> Path:
    return job.folder / COMPILED / LAUNCH


def _size(job: PreparedJob) -> str:
    if job.run is None:
        return "one process"
    plan = job.run.plan
    return f"{plan.topology.world_size} ranks, {plan.topology.backend}, ZeRO stage {plan.zero.stage}"


def _report_kept(job: PreparedJob, kept: list[str]) -> None:
    if kept:
        log.info("job %d: the folder holds an earlier run; kept: %s", job.number, ", ".join(kept))


def _report(job: PreparedJob, paths: JobPaths, ret: JobReturn, seconds: float) -> None:
    if ret.status is not JobStatus.COMPLETED:
        log.info("job %d: failed after %.0f s: %s", job.number, seconds, paths.root)
        return
    loss = ""
    try:
        import json

        loss = f", last loss {json.loads(paths.summary.read_text(encoding='utf-8'))['last_loss']:.4f}"
    except (OSError, ValueError, KeyError, TypeError):
        pass  # the script keeps no summary
    title = " ".join(filter_overrides(list(job.overrides)))
    log.info("job %d: done in %.0f s%s: %s%s", job.number, seconds, loss, paths.root, f"  [{title}]" if title else "")
