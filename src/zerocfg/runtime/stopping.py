"""Being asked to stop: a signal is noted, and the training loop acts on it at the end of a step.

SIGTERM has two senders. Whoever wants the run to stop (a scheduler, the launcher) means all ranks; torchrun sends it to the others
when one rank has died, and these may wait for the dead one inside a collective for minutes, where Python runs no handler. So a thread
of its own hears of the signal at once, and ends the process when a rank on this machine is gone.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType, TracebackType

STOP_WORD = ".zerocfg/stop"
"""Below the job's folder; a launcher's word to the ranks, which hear a signal alone."""
_LOOK_SECONDS = 0.2
_NOT_OURS = ("SIGQUIT",)
"""Left to its meaning, an immediate end with a dump."""


def asked_by(job: Path) -> str:
    """Who wants the run to stop, in the launcher's words: Ctrl-C, SIGTERM, time limit. Empty: a signal came to the ranks directly.

    job: its folder. Ranks are sent SIGUSR2 whatever it was: of SIGTERM see above.
    """
    try:
        return (job / STOP_WORD).read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""


class StopSignals:
    """Notes signals while it is open. names: as in torchrun.signals_to_handle. Does nothing outside of the main thread."""

    def __init__(self, names: Sequence[str], neighbours: Sequence[Neighbour] = ()) -> None:
        self._names = [name for name in names if name not in _NOT_OURS]
        self._neighbours = list(neighbours)
        self._before: dict[int, object] = {}
        self._pipe: tuple[int, int] | None = None
        self._wakeup = -1
        self._open = False
        self.number = 0
        """Of the first signal; 0: none came."""

    @property
    def name(self) -> str:
        return name_of(self.number)

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is not threading.main_thread():
            return self
        self._open = True
        for name in self._names:
            number = signal.Signals[name]
            self._before[number] = signal.signal(number, self._note)
        if self._neighbours:
            self._pipe = os.pipe()
            os.set_blocking(self._pipe[1], False)
            self._wakeup = signal.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)
            threading.Thread(target=self._watch, args=(self._pipe[0],), name="zerocfg-stop", daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Give the signals back their old handlers."""
        if self._open:
            self.deafen()
            for number, handler in self._before.items():
                signal.signal(number, handler)  # type: ignore[arg-type]

    def deafen(self) -> None:
        """Go on noting signals and do nothing else about them, until the process ends: it is on its way out."""
        if not self._open:
            return
        self._open = False
        if self._pipe is not None:
            signal.set_wakeup_fd(self._wakeup)
            os.close(self._pipe[1])

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.number = self.number or number

    def _watch(self, pipe: int) -> None:
        """In the thread: bytes of the pipe are signal numbers; it ends with the pipe."""
        while numbers := os.read(pipe, 64):
            while signal.SIGTERM in numbers and self._open:
                gone = [neighbour.rank for neighbour in self._neighbours if not neighbour.alive()]
                if gone and self._open:
                    sys.stderr.write(f"SIGTERM, and rank {', '.join(map(str, gone))} is gone: this rank ends\n")
                    sys.stderr.flush()
                    os._exit(128 + signal.SIGTERM)
                time.sleep(_LOOK_SECONDS)
        os.close(pipe)


class Neighbour:
    """Another rank on this machine."""

    def __init__(self, rank: int, pid: int, started: str) -> None:
        self.rank, self._pid, self._started = rank, pid, started

    def alive(self) -> bool:
        state, started = process_state(self._pid)
        return started == self._started and state not in ("Z", "X")


def process_state(pid: int) -> tuple[str, str]:
    """State letter (Z: ended, not yet waited for) and start time of a process; empty texts where there is none."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            fields = file.read().rpartition(")")[2].split()
        return fields[0], fields[19]
    except (OSError, IndexError):
        return "", ""


def introduce() -> str:
    """This rank, as `neighbours` reads it on the others."""
    return f"{_machine()} {os.getpid()} {process_state(os.getpid())[1] or '-'}"


def neighbours(introductions: Sequence[str], own_rank: int) -> list[Neighbour]:
    """The other ranks of this machine, out of what all ranks said, by rank."""
    here = _machine()
    found = []
    for rank, text in enumerate(introductions):
        machine, pid, started = text.split(" ")
        if rank != own_rank and machine == here and started != "-":
            found.append(Neighbour(rank, int(pid), started))
    return found


def _machine() -> str:
    """The boot, and the namespace of process numbers: machines of a cluster may share a name."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
            return f"{file.read().strip()}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return "-"


def name_of(number: float) -> str:
    return signal.Signals(int(number)).name if number else ""
