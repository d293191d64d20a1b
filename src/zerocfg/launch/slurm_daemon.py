"""Whether a step's slurmstepd still lives: srun waits for ever for one that was killed (22.05), and the job with it, to its time limit."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from zerocfg.launch.processes import ProcessId, with_token

_TITLE = re.compile(rb"slurmstepd: \[(\d+)\.(\d+)\]")
"""As slurmstepd calls itself: job and step; batch and extern steps have names."""
_LATE_SECONDS = 10.0
"""After its last message a slurmstepd ends at once, and srun some moments later."""


class DaemonWatch:
    """Of the job's newest step on this host. Finds nothing where other users' processes are hidden."""

    def __init__(self, job_id: str, *, late: float = _LATE_SECONDS) -> None:
        self._job_id = job_id
        self._late = late
        self._daemon: ProcessId | None = None
        self._sruns: list[ProcessId] = []
        """Those that ran while it did."""
        self._gone_since = 0.0

    def stuck(self) -> list[ProcessId]:
        """srun processes that wait for a slurmstepd that is gone. To be called every few seconds."""
        if self._daemon is not None and self._daemon.alive():
            return []
        waiting = [srun for srun in self._sruns if srun.alive()] if self._daemon is not None else []
        if waiting:
            self._gone_since = self._gone_since or time.monotonic()
            return waiting if time.monotonic() - self._gone_since >= self._late else []
        self._gone_since = 0.0
        self._daemon = newest_daemon(self._job_id)
        self._sruns = list(_below(os.getpid(), "srun")) if self._daemon is not None else []
        return []


def newest_daemon(job_id: str) -> ProcessId | None:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            title = _TITLE.match((entry / "cmdline").read_bytes())
        except OSError:
            continue
        if title is not None and title[1].decode() == job_id:
            found.append((int(title[2]), int(entry.name)))
    return ProcessId.of(max(found)[1]) if found else None


def _below(ancestor: int, name: str) -> Iterator[ProcessId]:
    """Processes of this name that stem from another."""
    parents, names = {}, {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            head, _, rest = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")
        except OSError:
            continue
        pid = int(entry.name)
        parents[pid], names[pid] = int(rest.split()[1]), head.partition("(")[2]
    for pid in names:
        above = pid
        while above in parents and above != ancestor:
            above = parents[above]
        if names[pid] == name and above == ancestor:
            yield ProcessId.of(pid)


def end_step(token: str, sruns: Collection[ProcessId], *, grace: float) -> None:
    """End what is left of a step on this host. Ranks whose parent is gone have heard of it and may be saving: `grace` seconds for that."""
    deadline = time.monotonic() + grace
    while (left := _tasks(token)) and time.monotonic() < deadline:
        time.sleep(0.2)
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for srun in sruns:
        if srun.alive():
            with suppress(ProcessLookupError):
                os.kill(srun.pid, signal.SIGKILL)


def _tasks(token: str) -> list[int]:
    """Processes of the job's steps: not of the batch script, which have the token too."""
    found = []
    for pid in with_token(token, but=(os.getpid(),)):
        with suppress(OSError):
            if b"\0SLURM_STEP_ID=" in b"\0" + Path(f"/proc/{pid}/environ").read_bytes():
                found.append(pid)
    return found
