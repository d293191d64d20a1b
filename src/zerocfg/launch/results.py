"""What a rank leaves behind: one file each, written as a whole at its end."""

from __future__ import annotations

import os
import pickle
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from zerocfg.errors import Preempted, ZerocfgError
from zerocfg.launch.paths import JobPaths


@dataclass(frozen=True, kw_only=True, slots=True)
class RankResult:
    """One rank's end. Written by the rank."""

    rank: int
    ok: bool
    value: bytes = b""
    """Rank 0: the return value, cloudpickled."""
    value_problem: str = ""
    """Why there is no value although the rank did well."""
    error: str = ""
    """One line, "ValueError: ..."."""
    traceback: str = ""
    exception: bytes = b""
    """The exception itself, where it can be pickled."""
    preempted: Preempted | None = None
    """It was asked to stop, saved, and did: not ok, and no failure."""
    time: float = field(default_factory=time.time)
    """When it ended, seconds since the epoch: the first failure is the cause, the others are its echo."""


def succeeded(rank: int, value: object) -> RankResult:
    """Only rank 0 hands its value back; one that cannot be pickled is lost, with `value_problem`."""
    if rank != 0:
        return RankResult(rank=rank, ok=True)
    data, problem = _pickled(value)
    return RankResult(rank=rank, ok=True, value=data, value_problem=problem)


def failed(rank: int, error: BaseException) -> RankResult:
    """error: its traceback starts at the task function."""
    if isinstance(error, Preempted):
        return RankResult(rank=rank, ok=False, error=f"stopped by {error.signal} after step {error.step}", preempted=error)
    data, _ = _pickled(error)
    if isinstance(error, ZerocfgError):
        # the user's to mend: its text is the report
        return RankResult(rank=rank, ok=False, error=str(error).partition("\n")[0], traceback=f"{error}\n", exception=data)
    lines = traceback.format_exception(type(error), error, error.__traceback__)
    title = "".join(traceback.format_exception_only(error)).strip()
    return RankResult(rank=rank, ok=False, error=title, traceback="".join(lines), exception=data)


def _pickled(value: object) -> tuple[bytes, str]:
    import cloudpickle

    try:
        return cloudpickle.dumps(value), ""
    except Exception as problem:
        return b"", f"{type(value).__name__} cannot be pickled ({type(problem).__name__}: {problem})"


def write_result(path: Path, result: RankResult) -> None:
    """Whole or not at all; the folder exists already."""
    draft = path.with_suffix(f".{os.getpid()}")
    draft.write_bytes(pickle.dumps(result))
    draft.replace(path)


def saved_and_stopped(results: Mapping[int, RankResult]) -> Preempted | None:
    """How a run was stopped that has saved; None for any other end. Ranks that were ended while the others saved count as that."""
    found = [result.preempted for result in results.values() if not result.ok]
    return next((end for end in found if end is not None), None) if all(end is not None for end in found) else None


def read_results(paths: JobPaths) -> dict[int, RankResult]:
    """By rank. A file that cannot be read counts as a failure of its rank."""
    results = (_read(path) for path in paths.results.glob("result_*.pkl") if path.stem.removeprefix("result_").isdecimal())
    return {result.rank: result for result in results}


def _read(path: Path) -> RankResult:
    try:
        found = pickle.loads(path.read_bytes())
        if isinstance(found, RankResult):
            return found
        why = f"it holds a {type(found).__name__}"
    except Exception as problem:  # whatever pickle makes of a damaged file
        why = f"{type(problem).__name__}: {problem}".splitlines()[0]
    rank = int(path.stem.removeprefix("result_"))
    return RankResult(rank=rank, ok=False, error=f"how it ended is not known: {path} cannot be read: {why}")
