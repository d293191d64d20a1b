"""One rank of `zerocfg launch`: `python -m zerocfg.launch.plain_rank [-m] SCRIPT [ARGUMENT...]`, started by torchrun.

The script is a process of its own, as under torchrun alone; this one stays beside it, keeps its log, passes signals on and
writes down how it ended, also when it crashed.
"""

from __future__ import annotations

import os
import pickle
import resource
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType

from zerocfg.diagnostics import ConfigProblems
from zerocfg.emit import COMPILED
from zerocfg.errors import PREEMPTED_STATUS, Preempted
from zerocfg.launch.processes import die_with_parent
from zerocfg.launch.results import RankResult, write_result
from zerocfg.launch.streams import begin
from zerocfg.runtime.checkpoint_start import locate
from zerocfg.runtime.stopping import asked_by

PLACEHOLDER = "{ds_config}"
"""In an argument of the script: becomes the path of the compiled JSON."""
DS_CONFIG = "ZEROCFG_DS_CONFIG"
"""Environment of the script: the same path."""
MODULE = "zerocfg.launch.plain_rank"

_STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
_PASSED_ON = (*_STOPS, signal.SIGUSR1, signal.SIGUSR2)
_LAST_LINES = 20
_LAST_BYTES = 32768


def main(words: Sequence[str]) -> int:
    """Run the script. Ends as the script ended: with its exit status, or by the same signal."""
    begun = begin()
    rank, paths, root = begun.rank, begun.paths, begun.paths.root
    status, received = _run(command(words, root / COMPILED / "ds_config.json"), root / COMPILED / "ds_config.json")
    begun.finish()
    # one that was told to end because another has failed is not a failure of its own
    if status in (0, PREEMPTED_STATUS) or not set(received) & set(_STOPS):
        end = result(rank, status, paths.rank_log(rank))
        write_result(paths.result(rank), preempted(end, root, received) if status == PREEMPTED_STATUS else end)
    if status < 0:
        _end_by(-status)
    return status


def command(words: Sequence[str], ds_config: Path) -> list[str]:
    """words: what followed `--`."""
    return [sys.executable, "-u", *(word.replace(PLACEHOLDER, str(ds_config)) for word in words)]


def result(rank: int, status: int, log: Path) -> RankResult:
    """status: exit status, or a signal's number negated."""
    if status == 0:
        return RankResult(rank=rank, ok=True, value=pickle.dumps(None) if rank == 0 else b"")
    return RankResult(
        rank=rank,
        ok=False,
        error=f"ended by {_signal_name(-status)}" if status < 0 else f"exit status {status}",
        traceback="\n".join(last_lines(log)),
        exception=pickle.dumps(SystemExit(128 - status if status < 0 else status)),
    )


def preempted(end: RankResult, root: Path, received: Sequence[int]) -> RankResult:
    """Of a script that says by its exit status that it was stopped and can go on. root: the job's folder, which tells where."""
    newest = None
    with suppress(ConfigProblems):
        newest = locate(str(root), root)
    stop = Preempted(
        newest.step if newest else 0,
        asked_by(root) or (_signal_name(received[0]) if received else f"exit status {PREEMPTED_STATUS}"),
        str(newest.path) if newest else "",
    )
    return replace(end, preempted=stop, error=f"stopped by {stop.signal} after step {stop.step}")


def last_lines(log: Path) -> list[str]:
    """What a rank said last."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _LAST_BYTES))
            text = file.read().decode("utf-8", errors="replace")
    except OSError:
        return []
    return text.splitlines()[-_LAST_LINES:]


def _run(words: list[str], ds_config: Path) -> tuple[int, list[int]]:
    """(exit status, signals that were passed on)."""
    received: list[int] = []
    child: list[subprocess.Popen[bytes]] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        received.append(number)
        for process in child:
            process.send_signal(number)

    for number in _PASSED_ON:
        signal.signal(number, pass_on)
    child.append(
        subprocess.Popen(
            words,
            env={"PYTHONFAULTHANDLER": "1", **os.environ, DS_CONFIG: str(ds_config)},
            # signals to this process's group reach the script once, passed on from here
            start_new_session=True,
            preexec_fn=_in_child,  # this process has one thread
        )
    )
    for early in list(received):  # came while it was being started
        child[0].send_signal(early)
    status = child[0].wait()
    return status, received


def _in_child() -> None:
    die_with_parent(signal.SIGKILL)
    # the launcher shields its helpers from Ctrl-C; the script gets Python's own behaviour back
    for number in _PASSED_ON:
        signal.signal(number, signal.SIG_DFL)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _end_by(number: int) -> None:
    """As the script did, so that torchrun reports it."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
