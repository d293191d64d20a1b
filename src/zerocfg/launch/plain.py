"""Scripts without Hydra: compiled, checked and run on the paths of the launchers. One script is one job."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from hydra.core.utils import JobReturn, JobRuntime, JobStatus, setup_globals
from omegaconf import DictConfig, open_dict, read_write

from zerocfg.compose.sweep import SweepJob
from zerocfg.diagnostics import ConfigProblems, Diagnostic
from zerocfg.facts import Detected
from zerocfg.launch.board import Board
from zerocfg.launch.folders import check_free, claimed, fill, unwritable
from zerocfg.launch.launcher import pools_for
from zerocfg.launch.local import report_kept, script_of
from zerocfg.launch.options import LocalOptions
from zerocfg.launch.plain_check import check_trainer
from zerocfg.launch.plain_rank import MODULE
from zerocfg.launch.prepare import Prepared, PreparedJob, prepare
from zerocfg.launch.queue import LocalQueue
from zerocfg.launch.returns import JobFailed

log = logging.getLogger("zerocfg.launch")


def program(words: Sequence[str]) -> tuple[str, ...]:
    """What torchrun runs in each rank. words: the script and its arguments, as they stand on the command line."""
    return ("-m", MODULE, *words)


def prepare_plain(
    cfg: DictConfig,
    overrides: Sequence[str],
    words: Sequence[str],
    *,
    folder: Path | None,
    start: bool,
    detect: Callable[[], Detected],
    place: Callable[[PreparedJob], Iterable[Diagnostic]] | None = None,
) -> Prepared:
    """Compile and check one job out of a composed config; makes nothing. cfg is changed: its hydra node tells of this job.

    folder: of the job; None: hydra.sweep.dir. start, place: as `prepare` takes them.
    """
    setup_globals()
    name = _name(words)
    # Hydra's own state, as @hydra.main would have set it
    JobRuntime.instance().set("name", name)
    with read_write(cfg.hydra), open_dict(cfg.hydra):
        cfg.hydra.job.name = name
        cfg.hydra.sweep.dir = os.path.abspath(folder if folder is not None else str(cfg.hydra.sweep.dir))
        cfg.hydra.sweep.subdir = "."
    prepared = prepare(
        cfg,
        [list(overrides)],
        0,
        compose=lambda _: SweepJob(cfg, None, None),
        detect=detect,
        environ=os.environ,
        start=start,
        place=place,
    )
    for job in prepared.jobs:
        assert job.run is not None
        if found := [*check_free([job.folder]), *check_trainer(words, job.run.deepspeed)]:
            prepared.report.append(("", found))
    return prepared


def _name(words: Sequence[str]) -> str:
    """hydra.job.name, SLURM's job name too."""
    first = words[1].rpartition(".")[2] if words[0] == "-m" and len(words) > 1 else Path(os.path.abspath(words[0])).stem
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in first)


def run_here(job: PreparedJob, options: LocalOptions, words: Sequence[str], *, detect: Callable[[], Detected]) -> int:
    """Run it on this machine as soon as its devices are free; rank 0's log goes to stdout. Returns the exit status."""
    if options.dry_run:
        with claimed(job.folder) as paths:
            report_kept(job, fill(job, paths, b"", program(words), options.python or sys.executable, dry=True))
        log.info("dry run, nothing started: %s", script_of(job))
        return 0
    queue = LocalQueue(
        [job],
        seal=lambda _: b"",
        options=options,
        pools=pools_for([job], detect, os.environ),
        board=Board(1, bar=options.progress),
        after_each=lambda: None,
        program=program(words),
    )
    queue.run()
    ret = queue.returns[job.number]
    if ret.status is not JobStatus.COMPLETED:
        print(ret._return_value, file=sys.stderr, flush=True)
    return exit_status(ret)


def exit_status(ret: JobReturn) -> int:
    """Of the rank that failed first; 1 where no rank has said how it ended."""
    if ret.status is JobStatus.COMPLETED:
        return 0
    problem = ret._return_value
    cause = problem.__cause__ if isinstance(problem, JobFailed) else None
    return cause.code if isinstance(cause, SystemExit) and isinstance(cause.code, int) else 1


def check_folder(folder: Path) -> list[Diagnostic]:
    """ZC755 where the job's folder cannot be made or written. Makes nothing."""
    existing = folder
    while not os.path.lexists(existing) and existing != existing.parent:
        existing = existing.parent
    if existing.is_dir() and os.access(existing, os.W_OK | os.X_OK):
        return []
    why = "is not a folder" if not existing.is_dir() else "may not be written by this user"
    return [Diagnostic(code="ZC755", path="hydra.sweep.dir", message=f"{existing} {why}", hint="--out DIR, or hydra.sweep.dir=DIR")]


def folder_problem(folder: Path, error: OSError) -> ConfigProblems:
    """ZC755 for what could not be foreseen: a full disk, a name that is too long."""
    return ConfigProblems([unwritable(folder, error, hint="--out DIR, or hydra.sweep.dir=DIR")])
