"""stdout while jobs run: whoever reads it may go (`| head`, a `| tee` that was killed), which no signal tells a launcher that waits."""

from __future__ import annotations

import os
import select
import stat
import sys

CLOSED_STATUS = 141
"""128 + SIGPIPE."""
_SOON_MS = 200
_closed = False


class OutputClosed(BaseException):
    """Nobody reads stdout any more. From here on it is stderr, for what the launcher itself still has to say."""

    def __init__(self) -> None:
        super().__init__("stdout was closed")


def check_output(*, soon: bool = False) -> None:
    """Raises OutputClosed, once. soon: or if a pipe's reader goes in the next moments: Ctrl-C ends a `| tee` as well."""
    if not _closed and _is_unread(1, _SOON_MS if soon and _is_pipe(1) else 0):
        _redirect()
        raise OutputClosed


def write(text: str) -> None:
    """What a rank has said, to stdout; to nowhere once that is closed. Raises OutputClosed, once."""
    if _closed:
        return
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        _redirect()
        raise OutputClosed from None


def _redirect() -> None:
    global _closed
    _closed = True
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    sys.stdout.flush()  # what nobody has read
    if _is_unread(2):
        os.dup2(null, 2)
    os.dup2(2, 1)
    os.close(null)


def _is_pipe(descriptor: int) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(descriptor).st_mode)
    except OSError:
        return False


def _is_unread(descriptor: int, wait_ms: int = 0) -> bool:
    """A pipe's or a socket's other end is gone; False for anything else, and where there is no such descriptor."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(wait_ms))
