"""A job's folder: made once, by the launcher; one run at a time uses it."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from zerocfg.diagnostics import ConfigProblems, Diagnostic
from zerocfg.emit import COMPILED, replace_text, set_aside, write_compiled
from zerocfg.launch.hidden_yaml import hidden_yaml, secret_values
from zerocfg.launch.paths import JobPaths
from zerocfg.launch.prepare import PreparedJob
from zerocfg.launch.resume import goes_on
from zerocfg.nodes import written


def remove_unused(sweep: Path) -> None:
    """Take back a sweep's folder that Hydra has just made: multirun.yaml, and folders that are empty then."""
    if [entry.name for entry in sweep.iterdir()] == ["multirun.yaml"]:
        (sweep / "multirun.yaml").unlink()
        for folder in (sweep, *sweep.parents[:2]):
            try:
                folder.rmdir()
            except OSError:
                return  # not empty, or not ours to remove


@contextmanager
def claimed(folder: Path) -> Iterator[JobPaths]:
    """Make the folder and hold it. Raises ConfigProblems (ZC706) when another run holds it."""
    import filelock

    paths = JobPaths(folder)
    paths.results.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(paths.lock)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        raise ConfigProblems([_in_use(folder)]) from None
    try:
        if _is_held(paths.job_lock):
            raise ConfigProblems([_in_use(folder, orphan=True)])
        yield paths
    finally:
        lock.release()


def check_free(folders: Sequence[Path]) -> Iterator[Diagnostic]:
    """ZC706 for each folder that another run holds now. Makes nothing."""
    return (_in_use(folder, orphan=not _is_held(JobPaths(folder).lock)) for folder in folders if in_use(folder))


def in_use(folder: Path) -> bool:
    """Whether a run on this machine holds the job's folder now, or its ranks still do; no where that cannot be told. Makes nothing."""
    paths = JobPaths(folder)
    return _is_held(paths.lock) or _is_held(paths.job_lock)


def _is_held(lock: Path) -> bool:
    try:
        with lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def unwritable(folder: Path, error: OSError, *, hint: str) -> Diagnostic:
    """ZC755. error: of an attempt to write to it."""
    message = f"{folder} cannot be written: {error.strerror or error}"
    return Diagnostic(code="ZC755", path="hydra.sweep.dir", message=message, hint=hint)


def _in_use(folder: Path, *, orphan: bool = False) -> Diagnostic:
    return Diagnostic(
        code="ZC706",
        path="hydra.sweep.dir",
        message=f"another run is using {folder}",
        detail=("its launcher is gone; its ranks save, or end",) if orphan else (),
        hint="wait for it, or another hydra.sweep.dir",
    )


def fill(job: PreparedJob, paths: JobPaths, payload: bytes, program: Sequence[str], python: str, *, dry: bool = False) -> list[str]:
    """Write .hydra/, compiled/ and the payload, if there is one. An earlier run's files are kept under numbered names, which are returned.

    The records of a run that goes on from a checkpoint stay: it adds to them. dry: nothing is started, so all that a run left stays.
    """
    kept = [] if dry else _make_room(job, paths)
    _save_hydra(job)
    if job.run is not None:
        write_compiled(job.run, paths.root / COMPILED, program=program, python=python)
    if payload:
        draft = paths.payload.with_suffix(".tmp")
        draft.touch(mode=0o600)
        draft.write_bytes(payload)
        os.replace(draft, paths.payload)
    return kept


def _make_room(job: PreparedJob, paths: JobPaths) -> list[str]:
    """Number an earlier run's logs and records, and drop what it said of its end."""
    records = [] if job.run is not None and goes_on(job.run.plan, job.folder) else [paths.metrics, paths.summary]
    earlier = [*sorted(paths.root.glob("rank_*.log")), *records]
    kept = [f"{path.name} -> {moved.name}" for path in earlier if path.stem.count(".") == 0 and (moved := set_aside(path))]
    for folder, pattern in (
        (paths.results, "result_*.pkl"),
        (paths.results, "beat_*.json"),
        (paths.results, "refused_*.txt"),
        (paths.root, f"{paths.flight_recorder.name}*"),
    ):
        for stale in folder.glob(pattern):
            stale.unlink()
    paths.stop_word.unlink(missing_ok=True)
    set_aside(paths.starter_log)
    shutil.rmtree(paths.preflight, ignore_errors=True)
    return kept


def _save_hydra(job: PreparedJob) -> None:
    """What Hydra's run_job saves: config.yaml, hydra.yaml, overrides.yaml, interpolations as written."""
    hydra = job.config.hydra
    if hydra.output_subdir is None:
        return
    secrets = secret_values(job.config)
    folder = job.folder / str(hydra.output_subdir)
    folder.mkdir(parents=True, exist_ok=True)
    config = written(job.config)
    for name, content in (("hydra", {"hydra": config.pop("hydra")}), ("config", config), ("overrides", written(hydra.overrides.task))):
        replace_text(folder / f"{name}.yaml", hidden_yaml(content, secrets))
