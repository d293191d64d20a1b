"""One job on this machine: started, looked at, ended."""

from __future__ import annotations

import logging
import math
import os
import signal
import sys
import time
import uuid
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn

from zerocfg.diagnostics import render_report
from zerocfg.emit import COMPILED, LAUNCH, is_secret
from zerocfg.launch.executors import submit_local
from zerocfg.launch.fitness import preflight_command, write_preflight
from zerocfg.launch.folders import claimed, fill
from zerocfg.launch.job import NodeJob, NodeOutcome
from zerocfg.launch.options import LocalOptions
from zerocfg.launch.paths import JOB_TOKEN, PAYLOAD, JobPaths
from zerocfg.launch.pool import Lease
from zerocfg.launch.prepare import PreparedJob
from zerocfg.launch.processes import ProcessId, end_all
from zerocfg.launch.returns import job_return

log = logging.getLogger("zerocfg.launch")
PROGRAM = ("-m", "zerocfg.launch.worker", PAYLOAD)
STOP_MARGIN_SECONDS = 15.0
_ASK_AGAIN_SECONDS = 2.0


def script_of(job: PreparedJob) -> Path:
    return job.folder / COMPILED / LAUNCH


def report_kept(job: PreparedJob, kept: list[str]) -> None:
    if kept:
        log.info("job %d: the folder holds an earlier run; kept: %s", job.number, ", ".join(kept))


def _stop_signal(job: PreparedJob) -> int:
    saves = job.run is not None and job.run.plan.checkpoint.enabled and "SIGUSR2" in job.run.plan.torchrun.signals_to_handle
    return signal.SIGUSR2 if saves else signal.SIGTERM


class LocalJob:
    """A job that runs here. Raises ConfigProblems (ZC706) at once when its folder is in use."""

    def __init__(self, job: PreparedJob, payload: bytes, options: LocalOptions, lease: Lease, program: Sequence[str] = PROGRAM) -> None:
        """program: what each rank runs, as torchrun takes it."""
        self.job = job
        self.paths = JobPaths(job.folder)
        self.lease = lease
        self.started = time.monotonic()
        self._options = options
        self._token = uuid.uuid4().hex
        self._stack = ExitStack()
        self._asked = 0.0
        self._stop_by = float("inf")
        self._submitted: Any = None
        python = options.python or sys.executable
        self.shutdown_seconds = (job.run.plan.torchrun.shutdown_timeout if job.run else 10) + STOP_MARGIN_SECONDS
        try:
            self._stack.enter_context(claimed(job.folder))
            report_kept(job, fill(job, self.paths, payload, program, python))
            command: tuple[str, ...] = (python, "-u", *program)
            if job.run is not None:
                command = ("/bin/sh", str(script_of(job)))
                if options.preflight:
                    write_preflight(job.run, self.paths, python)
                    command = preflight_command(python, command)
            node = NodeJob(
                folder=str(job.folder),
                command=command,
                cwd=os.getcwd(),
                environment=lease.environment,
                launcher=ProcessId.own(),
                shutdown_seconds=self.shutdown_seconds,
                timeout_seconds=math.inf if options.timeout_min is None else 60 * options.timeout_min,
                locks=(*map(str, lease.inherited), str(self.paths.job_lock)),
                stop_signal=_stop_signal(job),
            )
            self._submitted = submit_local(node, self.paths, python=python, environment=self._hidden_environment())
        except BaseException:
            self.release()
            raise

    def _hidden_environment(self) -> dict[str, str]:
        """Secrets of the config's env go by the processes' environment alone."""
        run = self.job.run
        secrets = {name: value for name, value in (run.environment if run else {}).items() if is_secret(name)}
        return {**secrets, JOB_TOKEN: self._token}

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    def done(self) -> bool:
        return bool(self._submitted.done())

    def finish(self, *, shown: bool) -> JobReturn:
        """What Hydra gets. shown: rank 0's log was on the terminal."""
        end_all(self._token, but=(os.getpid(),))
        ret, warnings = job_return(self.job, self.paths, self._outcome(), shown=shown)
        self.release()
        if warnings:
            print(render_report(warnings), file=sys.stderr, flush=True)
        return ret

    def _outcome(self) -> NodeOutcome | str:
        try:
            problem = self._submitted.exception()
        except OSError as error:
            return f"{error.strerror or error}: {error.filename}"
        if problem is not None:
            return str(problem)
        outcome = self._submitted.result()
        assert isinstance(outcome, NodeOutcome)
        return outcome

    def ask_to_stop(self, how: str) -> None:
        """Once more every two seconds: submitit ignores it until the job's own handler is in place. how: what the user sent."""
        now = time.monotonic()
        if self._asked == 0.0:
            with suppress(OSError):
                self.paths.stop_word.write_text(how, encoding="utf-8")
        self._stop_by = min(self._stop_by, now + self.shutdown_seconds)
        if now - self._asked > _ASK_AGAIN_SECONDS:
            self._asked = now
            with suppress(ProcessLookupError):
                os.kill(int(self._submitted.job_id), signal.SIGTERM)

    @property
    def overdue(self) -> bool:
        """Asked to stop, and did not in time."""
        return time.monotonic() > self._stop_by

    def kill(self) -> None:
        end_all(self._token, but=(os.getpid(),), grace=0.0)

    def release(self) -> None:
        self._stack.close()
        self.lease.close()
