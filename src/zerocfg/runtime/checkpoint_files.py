"""Checkpoints as files: which are whole, how one gets its name, which ones go.

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

from zerocfg.plan import CheckpointPlan
from zerocfg.runtime.manifest import fault

MANIFEST = "zerocfg.json"
LATEST = "latest"
"""DeepSpeed's own file: the tag that its tools read."""
FORMAT = 1
DRAFT = ".saving-"
"""Start of a folder's name while it is being written."""
CONVERTED = ".universal-"
"""Start of a folder's name that holds a checkpoint for another number of ranks or stage."""
GOING = ".deleting-"
"""Start of a folder's name while it is being removed."""
NO_REASONS: Mapping[Path, str] = {}
TAG = re.compile(r"global_step(\d+)")


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


def tag(step: int) -> str:
    return f"global_step{step}"


def folder(plan: CheckpointPlan, job: Path) -> Path:
    """Where a run keeps its checkpoints."""
    return job / plan.directory


def read(path: Path) -> Checkpoint | str:
    """The checkpoint in a folder, or why it is not whole."""
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return f"it has no {MANIFEST}: it was not finished, or another program wrote it" if path.is_dir() else "there is no such folder"
    except (OSError, ValueError, RecursionError) as problem:
        return f"its {MANIFEST} cannot be read ({type(problem).__name__}: {problem})"
    if not isinstance(manifest, dict) or "format" not in manifest:
        return f"its {MANIFEST} is damaged: it has no format"
    if manifest["format"] != FORMAT:
        return f"its {MANIFEST} has format {manifest['format']}, this zerocfg reads {FORMAT}"
    if why := fault(manifest):
        return f"its {MANIFEST} is damaged: {why}"
    step, files = manifest["step"], manifest["files"]
    if TAG.fullmatch(path.name) and step_of(path) != step:
        return f"its {MANIFEST} is of step {step}"
    for name, size in files.items():
        try:
            there = (path / name).stat().st_size
        except OSError:
            return f"{name} is missing"
        if there != size:
            return f"{name} has {there} bytes of {size}"
    return Checkpoint(path=path, step=step, manifest=manifest)


def survey(directory: Path, unfit: Mapping[Path, str] = NO_REASONS) -> tuple[list[Checkpoint], list[str]]:
    """Whole checkpoints in a folder, by step; and the others, each with its reason. unfit: which are not, beside what `read` finds."""
    whole, damaged = [], []
    for path in tagged(directory):
        found = unfit.get(path) or read(path)
        if isinstance(found, Checkpoint):
            whole.append(found)
        else:
            damaged.append(f"{path}: {found}")
    return sorted(whole, key=lambda checkpoint: checkpoint.step), damaged


def tagged(directory: Path) -> list[Path]:
    """Folders that are named like checkpoints, by step, whole or not."""
    try:
        names = [name for name in os.listdir(directory) if TAG.fullmatch(name)]
    except (OSError, ValueError):  # a damaged plan may name a folder that no system has
        return []
    return sorted((directory / name for name in names), key=step_of)


def step_of(path: Path) -> int:
    return int(path.name.removeprefix("global_step"))


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
    if latest.is_dir():  # not ours; it must not stop the run
        _drop(latest)
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
    going = path.with_name(GOING + path.name)
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
