"""What submitit pickles and runs, one a machine: it starts torchrun, passes signals on, and leaves no process behind."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from zerocfg.emit import RUN_DIR
from zerocfg.launch.paths import JOB_TOKEN, JobPaths
from zerocfg.launch.pool import hold
from zerocfg.launch.processes import ProcessId, die_with_parent, end_all

# What a launcher above may have left in the environment and the ranks must not take for theirs.
_SCRUBBED = (
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "ROLE_RANK",
    "ROLE_WORLD_SIZE",
    "ROLE_NAME",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT",
    "TORCHELASTIC_MAX_RESTARTS",
    "TORCHELASTIC_USE_AGENT_STORE",
    "TORCHELASTIC_ERROR_FILE",
)
_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class NodeOutcome:
    returncode: int
    """Of torchrun (or of the one process); negative: ended by that signal."""
    stopped_by: str = ""
    """Empty, or why it was stopped: a signal's name, time limit, launcher gone."""
    killed: tuple[int, ...] = ()
    """Processes that did not end by themselves."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeJob:
    """One machine's part of a job."""

    folder: str
    """The job's folder."""
    command: tuple[str, ...]
    cwd: str
    environment: Mapping[str, str | None]
    """Laid over the inherited environment; None unsets."""
    launcher: ProcessId
    shutdown_seconds: float
    """From the request to stop until SIGKILL; longer than torchrun's own --shutdown-timeout."""
    stop_signal: int = signal.SIGTERM
    """What torchrun gets and passes on. SIGUSR2 where ranks save first: SIGTERM is also what a rank hears when another has failed."""
    timeout_seconds: float = math.inf
    """From the start of torchrun until it is asked to stop."""
    locks: tuple[str, ...] = ()
    """Lock files of the job's devices (pool.py), held by torchrun as long as it lives."""

    def __call__(self) -> NodeOutcome:
        paths = JobPaths(Path(self.folder))
        stop: list[str] = []

        def ask(number: int, frame: FrameType | None) -> None:
            stop.append(signal.Signals(number).name)

        for number in (signal.SIGTERM, signal.SIGUSR2):
            signal.signal(number, ask)
        held = hold([Path(lock) for lock in self.locks])
        with paths.starter_log.open("ab") as log:
            process = subprocess.Popen(
                self.command,
                cwd=self.cwd,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=[file.fileno() for file in held],
                preexec_fn=die_with_parent,  # this process has one thread
            )
            try:
                self._wait(process, stop, paths)
            finally:
                if process.poll() is None:
                    process.kill()
                    process.wait()
                killed = end_all(os.environ.get(JOB_TOKEN, ""), but=(os.getpid(), os.getppid()))
        return NodeOutcome(process.returncode, stop[0] if stop else "", tuple(killed))

    def _wait(self, process: subprocess.Popen[bytes], stop: list[str], paths: JobPaths) -> None:
        deadline = math.inf
        limit = time.monotonic() + self.timeout_seconds
        while process.poll() is None:
            time.sleep(_POLL_SECONDS)
            if not stop and not self.launcher.alive():
                stop.append("the launcher is gone")
            if not stop and time.monotonic() > limit:
                stop.append("time limit")
            if stop and deadline == math.inf:
                deadline = time.monotonic() + self.shutdown_seconds
                with suppress(OSError):
                    if not paths.stop_word.exists():  # the launcher knows better what it was
                        paths.stop_word.write_text(stop[0], encoding="utf-8")
                process.send_signal(self.stop_signal)
            if time.monotonic() > deadline:
                return

    def _environment(self) -> dict[str, str]:
        env = {k: v for k, v in os.environ.items() if not k.startswith("SUBMITIT_") and k not in _SCRUBBED}
        for name, value in {**self.environment, RUN_DIR: self.folder}.items():
            if value is None:
                env.pop(name, None)
            else:
                env[name] = value
        return env
