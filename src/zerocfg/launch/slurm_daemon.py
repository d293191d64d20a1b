"""Whether a step's slurmstepd still lives: srun waits for ever for one that was killed (22.05), and the job with it, to its time limit."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path

from zerocfg.launch.processes import ProcessId, with_token

_TITLE = re.compile(rb"slurmstepd: \[(\d+)\.(\d+)\]")
"""As slurmstepd calls itself: job and step; batch and extern steps have names."""
_LATE_SECONDS = 10.0
"""A slurmstepd ends after its last message, and srun some moments later, where it was the last."""
_LATE_ELSEWHERE_SECONDS = 60.0
"""Longer than SLURM takes to end a step on the other nodes (KillWait, 30 s by default)."""
_SCAN_SECONDS = 2.0


class DaemonWatch:
    """Of the job's newest step on this host. Finds nothing where other users' processes are hidden.

    alone: the job has no other node. On several, the slurmstepd of the node that is done first ends first; one that was killed is
    told by its tasks, which it leaves behind. over: whether by what the ranks say the step has nothing left to do on any node: then one
    of another node was killed. late, late_elsewhere: seconds that srun may take to end.
    """

    def __init__(
        self,
        job_id: str,
        *,
        alone: bool,
        over: Callable[[], bool],
        late: float = _LATE_SECONDS,
        late_elsewhere: float = _LATE_ELSEWHERE_SECONDS,
    ) -> None:
        self._job_id, self._alone, self._over = job_id, alone, over
        self._late, self._late_elsewhere = late, late_elsewhere
        self.here = True
        """It was this host's that was killed."""
        self._daemon: ProcessId | None = None
        self._tasks: dict[int, ProcessId] = {}
        self._sruns: list[ProcessId] = []
        """Those that ran while it did."""
        self._gone: tuple[float, bool] | None = None
        """Since when it is gone, and whether a task of it was left."""
        self._next_scan = 0.0

    def stuck(self) -> list[ProcessId]:
        """srun processes that wait for a slurmstepd that was killed. To be called a few times a second: it costs next to nothing."""
        now = time.monotonic()
        if self._daemon is not None and self._daemon.alive():
            for pid in _children(self._daemon.pid):
                if pid not in self._tasks:
                    self._tasks[pid] = ProcessId.of(pid)
            return []
        if self._daemon is not None:
            if self._gone is None:
                self._gone = now, any(task.alive() for task in self._tasks.values())
            since, left = self._gone
            self.here = self._alone or left
            if waiting := [srun for srun in self._sruns if srun.alive()]:
                late = now - since >= (self._late if self.here else self._late_elsewhere)
                return waiting if late and (self.here or self._over()) else []
        if now >= self._next_scan:
            self._next_scan = now + _SCAN_SECONDS
            self._daemon, self._tasks, self._gone = newest_daemon(self._job_id), {}, None
            self._sruns = list(_below(os.getpid(), "srun")) if self._daemon is not None else []
        return []


def _children(pid: int) -> list[int]:
    """Of each of its threads."""
    found: list[int] = []
    for entry in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += map(int, entry.read_text(encoding="ascii").split())
    return found


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
