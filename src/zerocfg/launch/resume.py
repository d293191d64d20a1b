"""What a job begins with, looked up before it is started: a job that cannot resume is refused before it waits in a queue."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from zerocfg.diagnostics import ConfigProblems, Diagnostic
from zerocfg.plan import Plan
from zerocfg.runtime.checkpoint_convert import check_room, target_in
from zerocfg.runtime.checkpoint_files import folder
from zerocfg.runtime.checkpoint_shape import Way, fit
from zerocfg.runtime.checkpoint_start import find_start
from zerocfg.runtime.consolidate import FOLDER, check_target


def check_resume(plan: Plan, job: Path) -> Sequence[Diagnostic]:
    """ZC770 to ZC774 and ZC776 to ZC778: whether the checkpoint that a job begins with is there and fits, and whether it can save its own.
    Changes nothing.

    job: its folder, which need not exist.
    """
    if unwritable := [*_unwritable(plan, job), *(check_target(job / FOLDER) if plan.checkpoint.consolidate_on_end else ())]:
        return unwritable
    try:
        start = find_start(plan.checkpoint, job, Path.cwd())
    except ConfigProblems as problems:
        return problems.diagnostics
    if start.checkpoint is None:
        return ()
    found = fit(start.checkpoint, plan)
    if found.way is not Way.converted:
        return found.diagnostics
    source = start.checkpoint.path
    return (*found.diagnostics, *check_room(source, target_in(folder(plan.checkpoint, job), source)))


def _unwritable(plan: Plan, job: Path) -> Iterator[Diagnostic]:
    if not plan.checkpoint.enabled:
        return
    own = folder(plan.checkpoint, job)
    existing = own
    while not os.path.lexists(existing) and existing != existing.parent:
        existing = existing.parent
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        why = "may not be written by this user" if existing.is_dir() else "is no folder"
        yield Diagnostic(
            code="ZC774",
            path="checkpoint.directory",
            message=f"checkpoint.directory: {own} cannot be written: {existing} {why}",
            hint="checkpoint.directory=checkpoints, below the job's folder; or a folder that you may write on all nodes",
        )


def goes_on(plan: Plan, job: Path) -> bool:
    """Whether a job begins with a checkpoint, so that its records are continued."""
    try:
        return find_start(plan.checkpoint, job, Path.cwd()).checkpoint is not None
    except ConfigProblems:
        return False


def check_apart(jobs: Iterable[tuple[int, Plan, Path]]) -> Iterator[Diagnostic]:
    """ZC775: jobs of one sweep that would save into the same folder. jobs: number, plan and folder of each."""
    users: dict[Path, list[int]] = {}
    for number, plan, job in jobs:
        if plan.checkpoint.enabled:
            users.setdefault(folder(plan.checkpoint, job), []).append(number)
    for place, numbers in users.items():
        if len(numbers) > 1:
            yield Diagnostic(
                code="ZC775",
                path="checkpoint.directory",
                message=f"checkpoint.directory: jobs {', '.join(map(str, numbers))} would save in {place}",
                hint="checkpoint.directory=checkpoints, which is below each job's folder",
            )
