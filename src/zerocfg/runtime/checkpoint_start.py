"""Which checkpoint a run begins with, and what has to make way for it. No torch here: launchers ask before they submit."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from zerocfg.diagnostics import ConfigProblems, Diagnostic
from zerocfg.emit import set_aside
from zerocfg.plan import CheckpointPlan
from zerocfg.runtime.checkpoint_files import DRAFT, GOING, MANIFEST, NO_REASONS, TAG, Checkpoint, folder, read, step_of, survey, tagged

_SHOWN = 4


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


def locate(text: str, base: Path, *, key: str = "checkpoint.resume", unfit: Mapping[Path, str] = NO_REASONS) -> Checkpoint:
    """The checkpoint that a path names: its folder, a folder of checkpoints, a job's folder, or that of a sweep in which one job has
    any; of several, the newest whole one.

    base: of relative paths. key: where the path was written; empty: an argument. Raises ConfigProblems (ZC770).
    """
    path = Path(os.path.abspath(base / Path(text).expanduser()))
    if (path / MANIFEST).exists() or TAG.fullmatch(path.name):
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
    without = "a folder without checkpoints: a run saves some with checkpoint=steps, minutes or on_stop"
    nothing = f"{path} is {without if path.is_dir() else 'not a folder'}"
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
    with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
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


def find_start(plan: CheckpointPlan, job: Path, base: Path, *, again: bool = False, unfit: Mapping[Path, str] = NO_REASONS) -> Start:
    """Where a run begins. Changes nothing.

    base: of a relative path in checkpoint.resume. again: this is a restart or a requeue of a run that has begun, so that `never`
    does not hold any more. unfit: checkpoints that were found damaged, with the reason.

    Raises ConfigProblems (ZC770) for a path without a whole checkpoint.
    """
    own = folder(plan, job)
    whole, damaged = survey(own, unfit)
    newest = whole[-1] if whole else None
    if plan.resume == "never" and not again:
        return Start(checkpoint=None, aside=tuple(tagged(own)), damaged=tuple(damaged))
    if plan.resume in ("auto", "never"):
        return Start(checkpoint=newest, started_from=newest.started_from if newest else "", damaged=tuple(damaged))
    name = os.path.abspath(base / Path(plan.resume).expanduser())
    own_ones = [checkpoint for checkpoint in whole if checkpoint.started_from == name]
    if own_ones:  # begun already: the path itself may be gone by now
        return Start(checkpoint=own_ones[-1], started_from=name, damaged=tuple(damaged))
    source = locate(plan.resume, base, unfit=unfit)
    here = source.path.parent == own
    others = [path for path in tagged(own) if not here or step_of(path) > source.step]
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
    for prefix in (DRAFT, GOING):
        for left in sorted(own.glob(f"{prefix}*")):
            shutil.rmtree(left, ignore_errors=True)
            if prefix == DRAFT:
                said.append(f"{left.name.removeprefix(DRAFT)} was not finished and is removed")
    return said
