"""Processes of one job, found by a token in their environment: sessions and groups differ, and none may be left behind."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from zerocfg.launch.paths import JOB_TOKEN

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A process that can be recognized after its number was given to another."""

    pid: int
    started: str
    """Clock ticks since boot, /proc/PID/stat; empty where there is no /proc."""

    @classmethod
    def own(cls) -> ProcessId:
        return cls.of(os.getpid())

    @classmethod
    def of(cls, pid: int) -> ProcessId:
        return cls(pid, _stat(pid)[1])

    def alive(self) -> bool:
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        state, started = _stat(self.pid)
        return started == self.started and state not in ("Z", "X")


def _stat(pid: int) -> tuple[str, str]:
    """State letter (Z: ended, not yet waited for) and start time."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return fields[0], fields[19]
    except (OSError, IndexError):
        return "", ""


def with_token(token: str, *, but: Collection[int] = ()) -> list[int]:
    """Processes of this user whose environment has the job's token, zombies left out."""
    if not token:
        return []
    mark = f"{JOB_TOKEN}={token}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        pid = int(entry.name)
        if pid in but:
            continue
        try:
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                found.append(pid)
        except OSError:
            continue
    return found


def end_all(token: str, *, but: Collection[int] = (), grace: float = 3.0) -> list[int]:
    """Wait for a job's last processes, then SIGKILL what is left. Returns the pids that had to be killed."""
    deadline = time.monotonic() + grace
    while (left := with_token(token, but=but)) and time.monotonic() < deadline:
        time.sleep(0.05)
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 5.0
    while left and with_token(token, but=but) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def die_with_parent(number: int = signal.SIGTERM) -> None:
    """Have the kernel signal this process when its parent ends, however that happens (Linux; nothing elsewhere)."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
