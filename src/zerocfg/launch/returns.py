"""What the launcher hands back to Hydra: a JobReturn a job, made of what its ranks left behind."""

from __future__ import annotations

import os
import pickle
import shlex
import shutil
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn, JobRuntime, JobStatus
from hydra.errors import CompactHydraException
from omegaconf import OmegaConf
from yaml import YAMLError

from zerocfg.deepspeed.importer.text import override
from zerocfg.diagnostics import Diagnostic, Severity
from zerocfg.errors import Preempted, ZerocfgError
from zerocfg.hidden import hide_override
from zerocfg.launch.cause import crashed, exit_statuses, find_hang, last_seen, originals
from zerocfg.launch.hydra_state import changes_directory, hydra_part, task_config
from zerocfg.launch.job import NodeOutcome
from zerocfg.launch.paths import JobPaths
from zerocfg.launch.prepare import PreparedJob
from zerocfg.launch.results import RankResult, read_results, saved_and_stopped
from zerocfg.runtime.checkpoint_files import folder, survey
from zerocfg.units import human_bytes

_LITTLE_BYTES = 2**20


class JobFailed(ZerocfgError, CompactHydraException):  # type: ignore[misc]
    """A job that did not end well. Hydra prints str() without a stack of its own; `traceback` is the failing rank's."""

    def __init__(self, summary: str, traceback: str = "", *, shown: bool = False) -> None:
        self.summary = summary
        self.traceback = traceback
        self.shown = shown
        """The rank's log, with the traceback, was on the terminal already."""
        super().__init__(summary if shown or not traceback else f"{summary}\n\n{traceback}")

    def __reduce__(self) -> tuple[Any, ...]:
        return _job_failed, (self.summary, self.traceback, self.shown, self.__cause__)


def _job_failed(summary: str, traceback: str, shown: bool, cause: BaseException | None) -> JobFailed:
    failed = JobFailed(summary, traceback, shown=shown)
    failed.__cause__ = cause
    return failed


def was_shown(ret: JobReturn) -> None:
    """Hydra shows the first failed job once more, at the end: without its traceback then."""
    if isinstance(problem := ret._return_value, JobFailed):
        ret.return_value = JobFailed(problem.summary, problem.traceback, shown=True)
        ret._return_value.__cause__ = problem.__cause__


def job_return(job: PreparedJob, paths: JobPaths, outcome: NodeOutcome | str, *, shown: bool) -> tuple[JobReturn, list[Diagnostic]]:
    """Hydra's JobReturn, and warnings. outcome: of the node, or why there is none. shown: rank 0's log was on the terminal."""
    ret = blank_return(job)
    results = read_results(paths)
    warnings: list[Diagnostic] = []
    problem = _failure(job, paths, outcome, results, shown=shown)
    if problem is not None:
        ret.status, ret.return_value = JobStatus.FAILED, problem
        return ret, warnings
    value: object = None
    first = results[0]
    if first.value_problem:
        warnings.append(_lost_value(job, first.value_problem))
    else:
        try:
            value = pickle.loads(first.value)
        except Exception as reason:
            warnings.append(_lost_value(job, f"it cannot be read here ({type(reason).__name__}: {reason})"))
    ret.status, ret.return_value = JobStatus.COMPLETED, value
    return ret, warnings


def _lost_value(job: PreparedJob, why: str) -> Diagnostic:
    return Diagnostic(
        code="ZC709",
        severity=Severity.WARNING,
        message=f"the return value of job {job.number} is lost: {why}",
        hint="return plain numbers, texts, lists and mappings",
    )


def blank_return(job: PreparedJob) -> JobReturn:
    """All that is known before the job has run."""
    return JobReturn(
        overrides=list(job.config.hydra.overrides.task),
        cfg=task_config(job.config),
        hydra_cfg=hydra_part(job.config),
        working_dir=str(job.folder) if changes_directory(job.config) else os.getcwd(),
        task_name=JobRuntime.instance().get("name"),
    )


def earlier_return(job: PreparedJob) -> JobReturn | None:
    """Of a job that finished in an earlier launch of the same sweep, with the same overrides; None when it has to run."""
    saved = job.folder / str(job.config.hydra.output_subdir or "") / "overrides.yaml"
    try:
        # saved without the values of secrets
        same = list(OmegaConf.load(saved)) == [hide_override(str(word)) for word in job.config.hydra.overrides.task]
    except (OSError, ValueError, YAMLError):
        return None
    if not same:
        return None
    ret, _ = job_return(job, JobPaths(job.folder), NodeOutcome(0), shown=True)
    return ret if ret.status is JobStatus.COMPLETED else None


def failed_return(job: PreparedJob, problem: Exception) -> JobReturn:
    """Of a job that did not start."""
    ret = blank_return(job)
    ret.status, ret.return_value = JobStatus.FAILED, JobFailed(f"job {job.number} was not started\n{problem}")
    return ret


def _failure(
    job: PreparedJob, paths: JobPaths, outcome: NodeOutcome | str, results: dict[int, RankResult], *, shown: bool
) -> JobFailed | None:
    errors = sorted((r for r in results.values() if not r.ok), key=lambda r: r.time)
    silent = [rank for rank in range(job.world_size) if rank not in results]
    stopped = outcome.stopped_by if isinstance(outcome, NodeOutcome) else ""
    if isinstance(outcome, NodeOutcome) and (outcome.returncode == 0 or stopped) and not errors and not silent:
        return None  # torchrun's status says only that it was asked to stop, where all ranks were at their end
    title = f"job {job.number} failed"
    if (saved := saved_and_stopped(results)) is not None:
        problem = JobFailed(preempted(job, saved, stopped or saved.signal), shown=True)
        problem.__cause__ = saved
        return problem
    if not stopped and (refusals := paths.refusals):
        return JobFailed(f"job {job.number} was not started", "\n".join(path.read_text(encoding="utf-8").rstrip() for path in refusals))
    if not stopped and paths.preflight_report.is_file():
        return JobFailed(f"{title} its preflight, nothing was trained", paths.preflight_report.read_text(encoding="utf-8").rstrip())
    if not stopped and (echo_of := _echoed(title, job, paths, results, errors, shown=shown)) is not None:
        return JobFailed(echo_of.summary + last_saved(job), echo_of.traceback, shown=echo_of.shown)
    if errors and not stopped:
        causes = originals(errors) or errors
        # of ranks that met the same mistake the lowest: rank 0's log is on the terminal already
        first = min((cause for cause in causes if cause.error == causes[0].error), key=lambda cause: cause.rank)
        echo = f" ({len(errors) - 1} more followed)" if len(errors) > 1 else ""
        log = paths.rank_log(first.rank)
        again = "" if first.error.startswith("error[") else last_saved(job)  # what the user has to mend comes first
        summary = f"{title}: rank {first.rank} of {job.world_size}: {first.error}{echo}\n  log: {log}{again}"
        problem = JobFailed(summary, first.traceback, shown=shown and first.rank == 0)
        if first.exception:
            try:
                problem.__cause__ = pickle.loads(first.exception)
            except Exception:
                problem.__cause__ = None
        return problem
    if stopped:
        return JobFailed(f"job {job.number} was stopped: {stopped}\n  folder: {paths.root}{last_saved(job)}")
    if not isinstance(outcome, NodeOutcome):
        return JobFailed(f"{title}: it ended without an outcome{_lost(paths.root)}\n  folder: {paths.root}", outcome)
    names = ", ".join(map(str, silent))
    how = f"ended by signal {-outcome.returncode}" if outcome.returncode < 0 else f"exit status {outcome.returncode}"
    summary = f"{title}: {how}; no word from rank {names}: killed (out of memory?), or it never started\n  log: {paths.starter_log}"
    return JobFailed(summary, _tail(paths.starter_log))


def _lost(folder: Path) -> str:
    """Where an outcome may be, for the end of a sentence."""
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return ": its folder is gone"
    return f": {human_bytes(free)} are free on the disk of its folder" if free < _LITTLE_BYTES else ""


def _echoed(
    title: str, job: PreparedJob, paths: JobPaths, results: dict[int, RankResult], errors: list[RankResult], *, shown: bool
) -> JobFailed | None:
    """Where what the ranks said is no more than the echo of another: of one that did not come, or that has ended without a word."""
    if originals(errors):
        return None
    crashes = crashed(paths)
    killed = {rank: name for rank, name in crashes.items() if name != "SIGABRT"}
    if not killed and (hang := find_hang(paths, errors, job.world_size)) is not None:
        said = next((result.traceback for result in errors if result.rank == hang.rank), "") or _tail(paths.rank_log(hang.rank))
        text = "\n  ".join([f"{title}: {hang.title}", *hang.lines, f"log: {paths.rank_log(hang.rank)}"])
        return JobFailed(text, said, shown=shown and hang.rank == 0)
    quiet = {rank: status for rank, status in exit_statuses(paths).items() if rank not in results}
    early = [rank for rank, result in sorted(results.items()) if result.ok] if errors else []
    if crashes:
        rank, name = next(iter((killed or crashes).items()))
        why = f"was ended by {name}{' (out of memory?)' if name == 'SIGKILL' else ''}"
    elif quiet:
        rank, status = next(iter(quiet.items()))
        why = f"ended with exit status {status} and no word"
    elif early:
        rank, why = early[0], "was through before the others"
    else:
        return None
    log = paths.rank_log(rank)
    text = f"{title}: rank {rank} of {job.world_size} {why}{last_seen(paths, rank)}\n  log: {log}"
    return JobFailed(text, _tail(log), shown=shown and rank == 0)


def preempted(job: PreparedJob, saved: Preempted, why: str) -> str:
    """What is said of a job that was stopped and has saved."""
    total = f" of {job.run.plan.train.steps}" if job.run is not None else ""
    where = f"checkpoint: {saved.checkpoint}" if saved.checkpoint else "no checkpoint could be written"
    return f"job {job.number} was stopped ({why}) after step {saved.step}{total}\n  {where}\n  {_again(job)}"


def _again(job: PreparedJob) -> str:
    return f"go on: {same_command(job)}"


def same_command(job: PreparedJob) -> str:
    """Into the job's folder. Quoted for Hydra and again for the shell."""
    return f"the same command with {shlex.quote(override('hydra.sweep.dir', str(job.config.hydra.sweep.dir)))}"


def last_saved(job: PreparedJob) -> str:
    """Two lines about the checkpoint that the same command would go on from, if there is one."""
    if job.run is None or not (plan := job.run.plan.checkpoint).enabled or plan.resume == "never":
        return ""
    whole, _ = survey(folder(plan, job.folder))
    return f"\n  checkpoint: {whole[-1].path}\n  {_again(job)}" if whole else ""


def was_preempted(ret: JobReturn) -> bool:
    """Stopped from elsewhere, and saved: no failure of its own."""
    problem = ret._return_value
    return isinstance(problem, JobFailed) and isinstance(problem.__cause__, Preempted)


def _tail(path: Path, lines: int = 40) -> str:
    try:
        return "\n".join(path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])
    except OSError:
        return ""
