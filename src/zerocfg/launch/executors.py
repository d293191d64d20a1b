"""How a job gets to its machine. One function an executor, all with the same arguments."""

from __future__ import annotations

import os
import shlex
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from zerocfg.launch.job import NodeJob
from zerocfg.launch.paths import JobPaths

_NO_LIMIT_MINUTES = 60.0 * 24 * 365 * 10


def submit_local(node: NodeJob, paths: JobPaths, *, python: str, environment: Mapping[str, str]) -> Any:
    """Start a job on this machine. Returns submitit's job.

    environment: for the job's processes, never written to a file.
    """
    import submitit

    # the command is in its files
    paths.submitit.mkdir(mode=0o700, parents=True, exist_ok=True)
    executor = submitit.LocalExecutor(folder=paths.submitit, python=shlex.quote(python))
    executor.update_parameters(
        nodes=1,
        tasks_per_node=1,
        # the job keeps its limit itself: submitit's signal ends a process that does not listen yet
        timeout_min=_NO_LIMIT_MINUTES,
    )
    with _environment(environment), _shielded_from_ctrl_c():
        return executor.submit(node)


@contextmanager
def _environment(extra: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in extra}
    os.environ.update(extra)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _shielded_from_ctrl_c() -> Iterator[None]:
    """Children inherit an ignored SIGINT: the terminal sends it to all of them, but the launcher alone decides what ends."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
