"""Checkpoints as files: which are whole, which one a run starts from, which ones go.

A checkpoint is a folder global_step<N>, as DeepSpeed names it, with DeepSpeed's files, a file of ours for each rank, and a manifest
that lists them all. It is written under another name and renamed when every rank is done, so that a folder of this name is
whole unless files were lost later; the manifest shows that too. No torch here: launchers ask before they submit.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zerocfg.diagnostics import ConfigProblems, Diagnostic
from zerocfg.emit import set_aside
from zerocfg.plan import CheckpointPlan

MANIFEST = "zerocfg.json"
LATEST = "latest"
"""DeepSpeed's own file: the tag that its tools read."""
FORMAT = 1
DRAFT = ".saving-"
"""Start of a folder's name while it is being written."""
CONVERTED = ".universal-"
"""Start of a folder's name that holds a checkpoint for another number of ranks or stage."""
_GOING = ".deleting-"
_NONE: Mapping[Path, str] = {}
_SHOWN = 4
_TAG = re.compile(r"global_step(\d+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint:
    """A whole one."""

    path: Path
    """Its folder; the folder's name is DeepSpeed's tag."""
    step: int
    """Optimizer steps done."""
    manifest: Mapping[str, Any]

    @property
    def plan(self) -> Mapping[str, Any]:
        """plan.json of the run that wrote it."""
        plan: Mapping[str, Any] = self.manifest["plan"]
        return plan

    @property
    def started_from(self) -> str:
        """checkpoint.resume of its run where that is a path, absolute; else empty."""
        return str(self.manifest.get("started_from", ""))


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """Where a run begins."""

    checkpoint: Checkpoint | None
    """None: at step 0."""
    started_from: str = ""
    """To be written into the checkpoints of this run."""
    aside: tuple[Path, ...] = ()
    """Checkpoints of another history in this run's own folder, to be kept under other names first."""
    damaged: tuple[str, ...] = ()
    """Checkpoints that are not whole, with the reason."""


def tag(step: int) -> str:
    return f"global_step{step}"


def folder(plan: CheckpointPlan, job: Path) -> Path:
    """Where a run keeps its checkpoints."""
    return job / plan.directory


def read(path: Path) -> Checkpoint | str:
    """The checkpoint in a folder, or why it is not whole."""
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        step, files = int(manifest["step"]), dict(manifest["files"])
        if manifest["format"] != FORMAT or not isinstance(manifest["plan"], dict):
            return f"its {MANIFEST} has format {manifest['format']}, this zerocfg reads {FORMAT}"
    except FileNotFoundError:
        return f"it has no {MANIFEST}: it was not finished, or another program wrote it" if path.is_dir() else "there is no such folder"
    except (OSError, ValueError, KeyError, TypeError) as problem:
        return f"its {MANIFEST} cannot be read ({type(problem).__name__}: {problem})"
    for name, size in files.items():
        try:
            there = (path / name).stat().st_size
        except OSError:
            return f"{name} is missing"
        if there != size:
            return f"{name} has {there} bytes of {size}"
    return Checkpoint(path=path, step=step, manifest=manifest)


def survey(directory: Path, unfit: Mapping[Path, str] = _NONE) -> tuple[list[Checkpoint], list[str]]:
    """Whole checkpoints in a folder, by step; and the others, each with its reason. unfit: which are not, beside what `read` finds."""
    whole, damaged = [], []
    for path in _tagged(directory):
        found = unfit.get(path) or read(path)
        if isinstance(found, Checkpoint):
            whole.append(found)
        else:
            damaged.append(f"{path}: {found}")
    return sorted(whole, key=lambda checkpoint: checkpoint.step), damaged


def _tagged(directory: Path) -> list[Path]:
    try:
        names = [name for name in os.listdir(directory) if _TAG.fullmatch(name)]
    except OSError:
        return []
    return sorted((directory / name for name in names), key=_step)


def _step(path: Path) -> int:
    return int(path.name.removeprefix("global_step"))


def locate(text: str, base: Path, *, key: str = "checkpoint.resume", unfit: Mapping[Path, str] = _NONE) -> Checkpoint:
    """The checkpoint that a path names: its folder, a folder of checkpoints, a job's folder, or that of a sweep in which one job has
    any; of several, the newest whole one.

    base: of relative paths. key: where the path was written; empty: an argument. Raises ConfigProblems (ZC770).
    """
    path = Path(os.path.abspath(base / Path(text).expanduser()))
    if (path / MANIFEST).exists() or _TAG.fullmatch(path.name):
        found = unfit.get(path) or read(path)
        if isinstance(found, Checkpoint):
            return found
        beside = ", ".join(checkpoint.path.name for checkpoint in survey(path.parent, unfit)[0])
        raise ConfigProblems([_none(text, [f"{path}: {found}", *([f"whole: {beside}"] if beside else [])], key)])
    newest, reasons = _newest(path, unfit)
    if newest is not None:
        return newest
    jobs = [job for job in _jobs_below(path) if _newest(job, unfit)[0] is not None]
    if len(jobs) == 1 and (newest := _newest(jobs[0], unfit)[0]) is not None:
        return newest
    if jobs:
        more = f" and {len(jobs) - _SHOWN} more" if len(jobs) > _SHOWN else ""
        reasons = [f"{len(jobs)} jobs below it have some: {', '.join(str(job) for job in jobs[:_SHOWN])}{more}"]
    nothing = f"{path} is {'a folder without checkpoints' if path.is_dir() else 'not a folder'}"
    raise ConfigProblems([_none(text, reasons or [nothing], key)])


def _newest(folder: Path, unfit: Mapping[Path, str]) -> tuple[Checkpoint | None, list[str]]:
    """Of a folder of checkpoints, or of a job's; and why others are none."""
    reasons: list[str] = []
    for place in (folder, *_places_of_job(folder)):
        whole, damaged = survey(place, unfit)
        if whole:
            return whole[-1], reasons
        reasons += [reason for reason in damaged if reason not in reasons]
    return None, reasons


def _places_of_job(job: Path) -> list[Path]:
    """Where a job keeps its checkpoints: as its plan says, and by default."""
    places = [job / "checkpoints"]
    with suppress(OSError, ValueError, KeyError, TypeError):
        plan = json.loads((job / "compiled" / "plan.json").read_text(encoding="utf-8"))
        places.insert(0, job / str(plan["checkpoint"]["directory"]))
    return places


def _jobs_below(sweep: Path) -> list[Path]:
    try:
        return sorted(path for path in sweep.iterdir() if path.is_dir())
    except OSError:
        return []


def _none(text: str, reasons: list[str], key: str) -> Diagnostic:
    hint = "a folder global_step<N>, a folder of them, a job's folder"
    if key:
        word = text.lower() if text.lower() in ("auto", "never") else "auto"
        hint += f"; or {key}={word}"
    return Diagnostic(
        code="ZC770",
        path=key,
        message=f"{key}{'=' if key else ''}{text}: there is no whole checkpoint",
        detail=tuple(reasons),
        hint=hint,
    )


def find_start(plan: CheckpointPlan, job: Path, base: Path, *, again: bool = False, unfit: Mapping[Path, str] = _NONE) -> Start:
    """Where a run begins. Changes nothing.

    base: of a relative path in checkpoint.resume. again: this is a restart or a requeue of a run that has begun, so that `never`
    does not hold any more. unfit: checkpoints that were found damaged, with the reason.

    Raises ConfigProblems (ZC770) for a path without a whole checkpoint.
    """
    own = folder(plan, job)
    whole, damaged = survey(own, unfit)
    newest = whole[-1] if whole else None
    if plan.resume == "never" and not again:
        return Start(checkpoint=None, aside=tuple(_tagged(own)), damaged=tuple(damaged))
    if plan.resume in ("auto", "never"):
        return Start(checkpoint=newest, started_from=newest.started_from if newest else "", damaged=tuple(damaged))
    name = os.path.abspath(base / Path(plan.resume).expanduser())
    own_ones = [checkpoint for checkpoint in whole if checkpoint.started_from == name]
    if own_ones:  # begun already: the path itself may be gone by now
        return Start(checkpoint=own_ones[-1], started_from=name, damaged=tuple(damaged))
    source = locate(plan.resume, base, unfit=unfit)
    here = source.path.parent == own
    others = [path for path in _tagged(own) if not here or _step(path) > source.step]
    return Start(checkpoint=source, started_from=name, aside=tuple(others), damaged=tuple(damaged))


def make_way(start: Start, own: Path) -> list[str]:
    """Do what `start` asks for before the run begins: keep other histories under other names, drop what was half written.

    Returns a line for each change.
    """
    said = []
    for path in start.aside:
        kept = set_aside(path)
        if kept is not None:
            said.append(f"checkpoint {path.name} of another start is kept as {kept.name}")
    for prefix in (DRAFT, _GOING):
        for left in sorted(own.glob(f"{prefix}*")):
            shutil.rmtree(left, ignore_errors=True)
            if prefix == DRAFT:
                said.append(f"{left.name.removeprefix(DRAFT)} was not finished and is removed")
    return said


def commit(draft: Path, step: int, manifest: Mapping[str, Any], *, keep_last: int) -> tuple[Checkpoint, list[str]]:
    """Make a written folder the newest checkpoint, then drop old ones. Returns it, and the names of those dropped.

    draft: holds all ranks' files, each of them on the disk already. Raises OSError; the checkpoints before are whole then.
    """
    files = {str(path.relative_to(draft)): path.stat().st_size for path in sorted(draft.rglob("*")) if path.is_file()}
    content = {"format": FORMAT, "step": step, **manifest, "files": files}
    write_through(draft / MANIFEST, json.dumps(content, indent=1, allow_nan=False) + "\n")
    for path in (*(p for p in draft.rglob("*") if p.is_dir()), draft):
        sync_directory(path)
    final = draft.with_name(tag(step))
    if final.exists():
        # the same step, done again after a start from before it, or one that was damaged
        _drop(final)
    draft.rename(final)
    sync_directory(final.parent)
    made = Checkpoint(path=final, step=step, manifest=content)
    latest = final.parent / LATEST
    write_through(latest.with_name(f".{LATEST}"), final.name)
    latest.with_name(f".{LATEST}").replace(latest)
    sync_directory(final.parent)
    return made, prune(final.parent, keep_last)


def prune(directory: Path, keep_last: int) -> list[str]:
    """Drop whole checkpoints but the newest `keep_last` (0: none goes), and conversions. Returns the names of those dropped."""
    whole, _ = survey(directory)
    going = whole[:-keep_last] if keep_last else []
    for checkpoint in going:
        _drop(checkpoint.path)
    for left in directory.glob(f"{CONVERTED}*"):
        shutil.rmtree(left, ignore_errors=True)
    return [checkpoint.path.name for checkpoint in going]


def _drop(path: Path) -> None:
    """First out of the way by one rename, then file by file."""
    going = path.with_name(_GOING + path.name)
    shutil.rmtree(going, ignore_errors=True)
    path.rename(going)
    if going.is_dir():
        shutil.rmtree(going, ignore_errors=True)
    else:
        going.unlink()


def write_through(path: Path, text: str) -> None:
    """Write a file and wait until it is on the disk."""
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def sync_file(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def sync_directory(path: Path) -> None:
    """Wait until the names in a folder are on the disk; some file systems cannot say so."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
