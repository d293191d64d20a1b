"""Where each rank stands, in a small file each: who is missing can be said although nobody can ask a rank that hangs.

Nothing is added to the training loop but its step's number. A thread looks at the main thread's stack, once a second at most, and
writes a line when that has changed; it also looks when the main thread waits inside a collective for ever.
"""

from __future__ import annotations

import json
import linecache
import os
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from types import FrameType

from zerocfg.misfit import misfit

_SECONDS = 1.0
_RANKS_A_SECOND = 64
"""All ranks of a run together write no more files than that in a second."""
_BYTES = 1024
_STALLED = 0.5
"""Share of the collective timeout after which a rank that has not moved says whom it waits for."""
_SHOWN = 6

_PHASES: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("torch/utils/cpp_extension.py", (), "compiling an op of DeepSpeed"),
    ("zerocfg/runtime/checkpoint_load.py", (), "loading its checkpoint"),
    ("zerocfg/runtime/checkpoint_save.py", (), "saving"),
    ("zerocfg/runtime/agreement.py", (), "agreeing on the step's end"),
    ("zerocfg/runtime/data.py", (), "data"),
    ("deepspeed/runtime/engine.py", ("forward",), "forward"),
    ("deepspeed/runtime/engine.py", ("backward",), "backward"),
    ("torch/_tensor.py", ("backward",), "backward"),
    ("deepspeed/runtime/engine.py", ("step",), "optimizer step"),
    ("deepspeed/runtime/engine.py", ("save_checkpoint",), "saving"),
    ("deepspeed/runtime/engine.py", ("load_checkpoint",), "loading its checkpoint"),
    ("zerocfg/runtime/engine.py", ("start",), "joining the process group"),
    ("zerocfg/runtime/engine.py", ("build",), "building the model"),
    ("zerocfg/runtime/engine.py", ("initialize",), "starting the engine"),
)
"""File, functions (none: all), what is done there. The innermost call on the stack that is in here counts."""
_COLLECTIVES = ("torch/distributed/distributed_c10d.py", "deepspeed/comm/torch.py")
_WAITING = (".wait(", "synchronize(", ".item()", ".tolist()")
"""In the line that runs: the CPU waits there for what other ranks or the GPU have not done."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Beat:
    """One rank as it was last seen."""

    rank: int
    step: int = 0
    """Optimizer step that it is in; 0: before the first."""
    phase: str = ""
    """Empty: in the script itself."""
    where: str = ""
    """Line of the script, as "train.py:41 in main: time.sleep(1)"."""
    waits_in: str = ""
    """Collective or wait that it is in; empty: it does something else."""
    since: float = 0.0
    """When it was first seen there, seconds since the epoch."""
    end: str = ""
    """done or failed, once it has ended."""
    attempt: int = 0
    """torchrun's count of restarts."""


def beat_file(folder: Path, rank: int) -> Path:
    return folder / f"beat_{rank}.json"


_step = 0


def reached(step: int) -> None:
    """The training loop is in this optimizer step."""
    global _step
    _step = step


class Heartbeat:
    """Of this rank, while it is open."""

    def __init__(self, folder: Path, rank: int, world_size: int) -> None:
        """folder: of all ranks' files; it exists."""
        self._folder, self._rank, self._world_size = folder, rank, world_size
        self._attempt = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") or "0")
        self._interval = max(_SECONDS, world_size / _RANKS_A_SECOND)
        self._main = threading.main_thread().ident
        self._over = threading.Event()
        self._last = Beat(rank=rank, since=time.time(), attempt=self._attempt)
        self._seen = time.monotonic()
        """When `_last` was first seen, by a clock that is never set."""
        self._told = False
        self._thread = threading.Thread(target=self._follow, name="zerocfg-heartbeat", daemon=True)

    def start(self) -> None:
        self._write(self._last)
        self._thread.start()

    def finish(self, *, well: bool) -> None:
        """What the rank was doing last stays known."""
        self._over.set()
        self._thread.join(timeout=2 * self._interval)
        beat = self._last
        self._write(Beat(**{**asdict(beat), "step": _step, "end": "done" if well else "failed"}))

    def _follow(self) -> None:
        while not self._over.wait(self._interval):
            with suppress(Exception):  # what looks on does not get in the way
                self._look()

    def _look(self) -> None:
        phase, where, waits_in = seen(sys._current_frames().get(self._main or 0))
        last = self._last
        if (_step, phase, where, waits_in) == (last.step, last.phase, last.where, last.waits_in):
            self._tell_stall(last)
            return
        self._told, self._seen = False, time.monotonic()
        self._last = Beat(
            rank=self._rank, step=_step, phase=phase, where=where, waits_in=waits_in, since=time.time(), attempt=self._attempt
        )
        self._write(self._last)

    def _tell_stall(self, last: Beat) -> None:
        seconds = time.monotonic() - self._seen
        limit = timeout_seconds()
        if self._told or not last.waits_in or not limit or seconds < _STALLED * limit:
            return
        self._told = True
        beats = read_beats(self._folder)
        missing, lines = who_is_missing(beats, self._world_size)
        if missing:
            head = f"no progress for {seconds:.0f} s, a collective may take {limit:g} s; {waited_for(missing, self._world_size)}"
            sys.stderr.write("\n  ".join([head, *lines]) + "\n")
            sys.stderr.flush()

    def _write(self, beat: Beat) -> None:
        text = json.dumps(asdict(beat)).encode()
        try:
            # one write of a fixed size, closed at once: other machines see it, a reader never half of it
            descriptor = os.open(beat_file(self._folder, self._rank), os.O_WRONLY | os.O_CREAT, 0o644)
            try:
                os.pwrite(descriptor, text.ljust(_BYTES - 1) + b"\n", 0)
            finally:
                os.close(descriptor)
        except OSError:
            return  # a full disk is told by what needs it


_timeout = 0.0


def set_timeout(seconds: float) -> None:
    """What a collective may take, once that is known."""
    global _timeout
    _timeout = seconds


def timeout_seconds() -> float:
    return _timeout


def seen(frame: FrameType | None) -> tuple[str, str, str]:
    """(phase, line of the script, collective or wait) of a stack, given by its innermost frame."""
    phase = where = waits_in = ""
    if frame is not None and any(word in (line := _line(frame)) for word in _WAITING):
        waits_in = line.removeprefix("return ")
    while frame is not None:
        code = frame.f_code
        doing, is_script, is_collective = _kind(code.co_filename, code.co_name)
        if is_collective:
            waits_in = code.co_name  # the outermost of them is what was called
        phase = phase or doing
        if is_script and not where:
            where = f"{os.path.basename(code.co_filename)}:{frame.f_lineno or 0} in {code.co_name}: {_line(frame)}"[:200]
        frame = frame.f_back
    return phase, where, waits_in[:80]


@lru_cache(maxsize=4096)
def _kind(file: str, name: str) -> tuple[str, bool, bool]:
    """(phase, whether it is a part of the script, whether it is a collective) of a function."""
    phase = next((what for end, names, what in _PHASES if file.endswith(end) and (not names or name in names)), "")
    is_script = not file.startswith(("<", _OURS, _STANDARD + os.sep)) and not any(part in file for part in _LIBRARIES)
    return phase, is_script, file.endswith(_COLLECTIVES) and name != "wrapper" and not name.startswith("_")


def _line(frame: FrameType) -> str:
    # between two lines a frame has no number
    return linecache.getline(frame.f_code.co_filename, frame.f_lineno or 0).strip()


_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_LIBRARIES = ("site-packages", "dist-packages", "/torch/", "/deepspeed/")
_STANDARD = os.path.dirname(os.__file__)


def read_beats(folder: Path) -> dict[int, Beat]:
    """Of all ranks that have written one, by rank."""
    beats = {}
    for path in folder.glob("beat_*.json"):
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            beat = Beat(**found)
        except (OSError, ValueError, TypeError, RecursionError):
            continue
        if not misfit(Beat, found):
            beats[beat.rank] = beat
    newest = max((beat.attempt for beat in beats.values()), default=0)
    return {rank: beat for rank, beat in sorted(beats.items()) if beat.attempt == newest}


def who_is_missing(
    beats: Mapping[int, Beat], world_size: int, timed_out: frozenset[int] = frozenset(), now: float | None = None
) -> tuple[list[int], list[str]]:
    """Ranks that the others wait for, and a line for each rank worth one, those first.

    timed_out: ranks whose collective is known to have timed out. Empty where all ranks wait for each other at the same step.
    """
    now = time.time() if now is None else now
    absent = [rank for rank in range(world_size) if rank not in beats]
    busy = [rank for rank, beat in beats.items() if not beat.waits_in and rank not in timed_out and beat.end != "failed"]
    waiting = [rank for rank in beats if rank not in busy]
    steps = {beat.step for beat in beats.values()}
    missing = absent + (busy if waiting or absent else [])
    if not missing and len(steps) > 1:
        missing = [rank for rank, beat in beats.items() if beat.step == min(steps)]
    missing = sorted(missing)[:world_size]
    others = [rank for rank in beats if rank not in missing]
    lines = [_told(rank, beats.get(rank), now) for rank in missing[:_SHOWN]]
    lines += [f"and {len(missing) - _SHOWN} more"] if len(missing) > _SHOWN else []
    lines += [_told(rank, beats[rank], now) for rank in others[:_SHOWN]]
    lines += [f"and {len(others) - _SHOWN} more that wait"] if len(others) > _SHOWN else []
    return missing, lines


def _told(rank: int, beat: Beat | None, now: float) -> str:
    if beat is None:
        return f"rank {rank}: never started"
    if beat.end == "done":
        return f"rank {rank}: ended after step {beat.step}"
    at = f"step {beat.step}" if beat.step else "before step 1"
    parts = [at, *([beat.phase] if beat.phase else []), *([f"waits in {beat.waits_in}"] if beat.waits_in else [])]
    seconds = f"for {max(0.0, now - beat.since):.0f} s"
    return f"rank {rank}: {', '.join([*parts, seconds])}" + (f"  {beat.where}" if beat.where else "")


def waited_for(missing: list[int], world_size: int) -> str:
    names = ", ".join(map(str, missing[:_SHOWN])) + (f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else "")
    return f"rank{'s' if len(missing) > 1 else ''} {names} of {world_size} {'are' if len(missing) > 1 else 'is'} missing"
