"""zerocfg launch: run a script without Hydra."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from zerocfg.cli import output
from zerocfg.cli.compile import TARGETS
from zerocfg.cli.launcher_options import launcher_options
from zerocfg.cli.outcome import examine_overrides
from zerocfg.compose import Composed, compose
from zerocfg.diagnostics import Diagnostic, has_errors, in_order
from zerocfg.facts import Detected
from zerocfg.launch.options import LocalOptions
from zerocfg.launch.plain import check_folder, folder_problem, prepare_plain, run_here
from zerocfg.launch.plain_check import check_json_reaches, check_program
from zerocfg.launch.prepare import PreparedJob
from zerocfg.launch.read_options import GROUP, decided
from zerocfg.launch.slurm_options import SlurmOptions


def launch_command(
    overrides: Sequence[str],
    words: Sequence[str],
    *,
    target: str | None = None,
    out: str | None = None,
    config_path: str | None = None,
    config_name: str | None = None,
) -> int:
    """Compile, check, run. words: what followed `--`. target: None leaves hydra/launcher as it is composed.

    The exit status is the script's: of the rank that failed first, 128 + N for one that signal N ended; 1 for problems that
    were found before a start, 130 and 143 after Ctrl-C and SIGTERM.
    """
    if target not in (None, *TARGETS):
        output.say(f"--target {target}: one of {', '.join(TARGETS)}")
        return 2
    if target is not None:
        overrides = [f"{GROUP}=zerocfg_{target}", *overrides]
    found = list(check_program(words))
    if all(problem.code != "ZC750" for problem in found):
        found += check_json_reaches(words)
    composed = compose(overrides, config_path=config_path, config_name=config_name)
    if has_errors(composed.diagnostics) or not composed.container:
        found += examine_overrides(overrides, config_path, config_name).diagnostics
    if not words or has_errors(composed.diagnostics) or not composed.container:
        return _refused([*found, *composed.diagnostics])
    return start(composed, overrides, words, found, out=out)


def start(composed: Composed, overrides: Sequence[str], words: Sequence[str], found: Sequence[Diagnostic], *, out: str | None) -> int:
    """Compile and check the job, and run it where hydra/launcher says. found: what is wrong so far."""
    found = list(found)
    options, wrong = launcher_options(composed, "ZC756")
    found += wrong
    if options is None:
        return _refused([*found, *composed.diagnostics])
    place = _Slurm(options) if isinstance(options, SlurmOptions) else _Local(options)
    folder = Path(out) if out is not None else None
    prepared = prepare_plain(
        composed.cfg, overrides, words, folder=folder, start=not options.dry_run, detect=place.detect, place=place.check
    )
    found += [*composed.diagnostics, *(d for _, several in prepared.report for d in several)]
    for job in prepared.jobs:
        found += [*check_folder(job.folder), *place.check_start(job)]
    found = decided(found, composed.cfg)
    if has_errors(found):
        return _refused(found)
    output.report(_once(found))
    (job,) = prepared.jobs
    try:
        with _told():
            return place.run(job, words)
    except SystemExit as stop:
        return int(stop.code or 0)
    except OSError as error:
        raise folder_problem(job.folder, error) from error


@contextmanager
def _told() -> Iterator[None]:
    """What the launcher logs goes to stderr; stdout is rank 0's."""
    logger, handler = logging.getLogger("zerocfg"), logging.StreamHandler(sys.stderr)
    level, propagate = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate


class _Local:
    """This machine."""

    check = None

    def __init__(self, options: LocalOptions) -> None:
        self._options = options

    def detect(self) -> Detected:
        from zerocfg.probe import detect

        return detect()

    def check_start(self, job: PreparedJob) -> Iterable[Diagnostic]:
        return ()

    def run(self, job: PreparedJob, words: Sequence[str]) -> int:
        return run_here(job, self._options, words, detect=self.detect)


class _Slurm:
    """The cluster whose commands are on this machine."""

    def __init__(self, options: SlurmOptions) -> None:
        from zerocfg.launch.slurm_cluster import read_cluster
        from zerocfg.launch.slurm_launch import check_cluster
        from zerocfg.launch.slurm_place import Placement

        self._options = options
        self._cluster = read_cluster()
        self._silent = check_cluster(options, self._cluster)
        self._placement = Placement(options, self._cluster, needs_cluster=not self._silent)
        self.check = self._placement.check

    def detect(self) -> Detected:
        return self._placement.machine.detected

    def check_start(self, job: PreparedJob) -> Iterable[Diagnostic]:
        from zerocfg.launch.slurm_state import check_active

        return self._silent or check_active([job.folder], job.folder)

    def run(self, job: PreparedJob, words: Sequence[str]) -> int:
        from zerocfg.launch.plain_slurm import run_slurm

        return run_slurm(job, self._options, words, placement=self._placement, cluster=self._cluster)


def _refused(found: Sequence[Diagnostic]) -> int:
    output.report(_once(found))
    output.say("nothing was started")
    return 1


def _once(found: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Composing reports some problems twice, with and without who decided."""
    kept: dict[tuple[str, str, str], Diagnostic] = {}
    for diagnostic in in_order(found):
        kept.setdefault((diagnostic.code, diagnostic.path, diagnostic.message), diagnostic)
    return list(kept.values())
