"""The base class of errors that are the user's to mend, shown as text and never as a traceback; and the end that is none."""

from __future__ import annotations

PREEMPTED_STATUS = 85
"""Exit status of a rank that was asked to stop and has saved: started again, it goes on. Not a status of signals (128 + n), shells
(126, 127) or Python (1, 2, 120)."""


class ZerocfgError(Exception):
    """Base of all errors raised on purpose."""


class Preempted(SystemExit):
    """The run was asked to stop, and did so after a step. A SystemExit, so that `except Exception` in a script lets it through."""

    def __init__(self, step: int, signal: str, checkpoint: str) -> None:
        super().__init__(PREEMPTED_STATUS)
        self.step = step
        """Optimizer steps done."""
        self.signal = signal
        """SIGTERM, SIGUSR2, Ctrl-C, time limit, ..."""
        self.checkpoint = checkpoint
        """Folder of the newest whole checkpoint; empty: there is none."""

    def __reduce__(self) -> tuple[type[Preempted], tuple[int, str, str]]:
        return type(self), (self.step, self.signal, self.checkpoint)
