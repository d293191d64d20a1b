"""Which rank made a job fail: the first that did not fail because of another; or the one that the others waited for."""

from __future__ import annotations

import re
import shlex
import signal
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from zerocfg.launch.paths import JobPaths
from zerocfg.launch.results import RankResult
from zerocfg.runtime.heartbeat import Beat, read_beats, waited_for, who_is_missing
from zerocfg.units import counted

_TIMED_OUT = re.compile(
    r"Watchdog caught collective operation timeout: (?P<nccl>WorkNCCL\([^)\n]*\)[^)\n]*\)?)"
    r"|Timed out waiting \d+ ?ms for (?:recv|send) operation"
    r"|wait timeout after \d+ ?ms"
    r"|Timed out after \d+ seconds waiting for clients"
)
"""As NCCL's watchdog, gloo and torch's TCP store say it (torch 2.13)."""
_ECHO = re.compile(
    r"Connection closed by peer|Connection reset by peer|Broken pipe|connection was closed|Application timeout caused pair closure"
    r"|ncclRemoteError|ncclSystemError|NCCL communicator was aborted"
)
"""What the other ranks say when one of them is gone."""
_ABORTED = "ended by SIGABRT"
_OPERATION = re.compile(r"OpType=(\w+)")
_SEQUENCE = re.compile(r"SeqNum=(\d+)")
_ENDED = re.compile(r"\brank\s*: (\d+) \(local_rank: \d+\)\s+exitcode\s*: (-?\d+)")
"""Of torchrun's report of failures."""
_CRASHES = {signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE}
_LOG_BYTES = 1 << 18


def is_echo(result: RankResult) -> bool:
    """It failed because another rank was gone or did not come; or may have: NCCL's watchdog aborts the process."""
    said = _said(result)
    return bool(_ECHO.search(said) or _TIMED_OUT.search(said) or result.error == _ABORTED)


def _said(result: RankResult) -> str:
    """Of a script of `zerocfg launch` the exit status is known, and what it has written last."""
    return result.error if ": " in result.error else f"{result.error}\n{result.traceback}"


def originals(errors: Iterable[RankResult]) -> list[RankResult]:
    return [result for result in errors if not is_echo(result)]


def crashed(paths: JobPaths) -> dict[int, str]:
    """Ranks that a signal has ended that torchrun did not send, with its name."""
    found = {}
    for rank, code in _ended(paths):
        if -code in _CRASHES:
            found[rank] = signal.Signals(-code).name
    return found


def exit_statuses(paths: JobPaths) -> dict[int, int]:
    """Of ranks that have failed by themselves, as torchrun reports them."""
    return {rank: code for rank, code in _ended(paths) if code > 0}


def _ended(paths: JobPaths) -> list[tuple[int, int]]:
    return [(int(rank), int(code)) for rank, code in _ENDED.findall(_end_of(paths.starter_log))]


def last_seen(paths: JobPaths, rank: int) -> str:
    """Where a rank was, for the end of a sentence; empty where nothing is known."""
    beat = read_beats(paths.results).get(rank)
    return _place(beat) if beat is not None and beat.step else ""


def _place(beat: Beat) -> str:
    return f", last seen in step {beat.step}" + (f", {beat.phase}" if beat.phase else "") + (f": {beat.where}" if beat.where else "")


@dataclass(frozen=True, kw_only=True, slots=True)
class Hang:
    """A collective that timed out."""

    title: str
    """"a collective timed out (ALLREDUCE): rank 1 of 2 is missing"."""
    lines: tuple[str, ...]
    """Where each rank stood; what timed out; where NCCL's flight recorder is."""
    rank: int
    """One that timed out."""


def find_hang(paths: JobPaths, errors: Collection[RankResult], world_size: int, *, logs: bool = True) -> Hang | None:
    """Looked for where no rank has failed by itself. logs: also in the ranks' logs, where NCCL's watchdog leaves its words."""
    words = {result.rank: found[0] for result in errors if (found := _TIMED_OUT.search(_said(result)))}
    watchdog = _watchdog(paths, world_size) if logs else {}
    timed_out = {**words, **watchdog}
    if not timed_out:
        return None
    beats = read_beats(paths.results)
    when = min((result.time for result in errors if result.rank in words), default=None)
    missing, places = who_is_missing(beats, world_size, frozenset(timed_out), when) if beats else ([], [])
    who = waited_for(missing, world_size) if missing else "the ranks wait for each other" if beats else _silent(timed_out, world_size)
    rank = min(timed_out)
    title = f"a collective timed out{_named(watchdog, beats, timed_out)}: {who}"
    lines = [*places, f"timed out: rank {rank}: {timed_out[rank]}", *_flight_recorder(paths)]
    return Hang(title=title, lines=tuple(lines), rank=rank)


def _named(watchdog: Mapping[int, str], beats: Mapping[int, Beat], timed_out: Collection[int]) -> str:
    names = {
        f"{found[1]} number {number[1]}"
        for text in watchdog.values()
        if (found := _OPERATION.search(text)) and (number := _SEQUENCE.search(text))
    }
    names = names or {beats[rank].waits_in for rank in timed_out if rank in beats and beats[rank].waits_in}
    return f" ({', '.join(sorted(names)[:3])})" if names else ""


def _silent(timed_out: Collection[int], world_size: int) -> str:
    silent = [rank for rank in range(world_size) if rank not in timed_out]
    return waited_for(silent, world_size) if silent else "on all ranks"


def _watchdog(paths: JobPaths, world_size: int) -> dict[int, str]:
    """What NCCL's watchdog said in the ranks' logs, before it ended them."""
    found = {}
    for rank in range(world_size):
        if (said := _TIMED_OUT.search(_end_of(paths.rank_log(rank)))) and said["nccl"]:
            found[rank] = said["nccl"]
    return found


def _flight_recorder(paths: JobPaths) -> list[str]:
    dumps = sorted(paths.root.glob(f"{paths.flight_recorder.name}[0-9]*"))
    if not dumps:
        return []
    read = f"torchfrtrace --prefix {paths.flight_recorder.name} {shlex.quote(str(paths.root))}"
    return [f"NCCL's flight recorder: {paths.flight_recorder}<rank>, {counted(len(dumps), 'file')}; {read}"]


def _end_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _LOG_BYTES))
            return file.read().decode("utf-8", errors="replace")
    except OSError:
        return ""
