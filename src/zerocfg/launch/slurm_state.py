"""The jobs of a sweep under SLURM: what was submitted, what SLURM says of it now, and how it ended once SLURM has forgotten it.

Works without accounting (sacct): squeue knows an ended job for MinJobAge seconds, afterwards the batch script's own word counts.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path

from zerocfg.diagnostics import ConfigProblems, Diagnostic
from zerocfg.emit import damaged, replace_text
from zerocfg.errors import PREEMPTED_STATUS
from zerocfg.launch.slurm_script import END_FILE, SLURM_DIR
from zerocfg.launch.slurm_step import NOTE_FILE, START_FILE
from zerocfg.misfit import misfit

JOBS_FILE = "jobs.json"
ENDED = frozenset(
    "BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED REVOKED TIMEOUT LOST".split()  # noqa: SIM905
)
"""SLURM's last states, and ours for a job that SLURM has forgotten and that has left no word: LOST. PREEMPTED is also what a job is
called that was stopped, has saved, and is not started again."""
_STOPPED_STATUS = 143
"""Of a batch script that SLURM itself has ended, for good or to start it again: SLURM's to say."""
_WAITING = "while it was waiting"
_TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class JobState:
    state: str
    """SLURM's name."""
    reason: str = ""
    """Why it waits, or why it ended."""
    nodes: str = ""
    exit_status: int | None = None
    """Of the batch script; None: not known (yet)."""
    restarts: int = 0
    """Starts after the first one; of a job that waits for the next, that one included."""

    @property
    def ended(self) -> bool:
        return self.state in ENDED


@dataclass(frozen=True, kw_only=True, slots=True)
class SlurmJob:
    """One job of a sweep, as jobs.json has it."""

    number: int
    """hydra.job.num."""
    folder: str
    slurm_id: str
    """12, or 12_3 for a task of an array."""
    overrides: tuple[str, ...] = ()
    world_size: int = 1
    submitted: float = field(default_factory=time.time)
    """Seconds since the epoch."""
    last: JobState | None = None
    """The last state, once it has ended."""

    @property
    def batch_log(self) -> str:
        """File name in the sweep's folder for SLURM: what setup, srun and SLURM itself said."""
        return f"{self.slurm_id}.log"


def word(state: str) -> str:
    """A state as results.csv has it, the same for all launchers: done, failed, cancelled, running."""
    return "done" if state == "COMPLETED" else state.lower()


def query(ids: Collection[str]) -> dict[str, JobState] | None:
    """What squeue knows of these jobs and arrays' tasks; forgotten ones are missing. None: the controller does not answer."""
    if not ids:
        return {}
    arrays = ",".join(sorted({job.partition("_")[0] for job in ids}, key=int))
    command = ["squeue", f"--jobs={arrays}", "--states=all", "--array", "--noheader", "--format=%F|%K|%T|%r|%N"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode != 0:
        # with one id alone, a forgotten job is an error
        return {} if "Invalid job id" in done.stderr else None
    return {job: state for job, state in parse_squeue(done.stdout).items() if job in ids}


def parse_squeue(text: str) -> dict[str, JobState]:
    found = {}
    for line in text.splitlines():
        job, task, state, reason, nodes = [*line.split("|"), "", "", "", ""][:5]
        found[f"{job}_{task}" if task.isdigit() else job] = JobState(state, "" if reason in ("None", "(null)") else reason, nodes)
    return found


def end_word(job: SlurmJob) -> int | None:
    """Exit status that the batch script has left, None while it runs or when it was killed."""
    name, _, status = _text(Path(job.folder) / END_FILE).rpartition(" ")
    return int(status) if name == job.slurm_id and status.isdigit() else None


def restarts(job: SlurmJob) -> int | None:
    """Of the batch script that runs or has run last; None: it has not started yet."""
    name, _, count = _text(Path(job.folder) / START_FILE).rpartition(" ")
    return int(count) if name == job.slurm_id and count.isdigit() else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def with_end(job: SlurmJob, said: JobState | None, before: JobState | None) -> JobState:
    """The state, with what the batch script has left. said: by squeue, None: forgotten. before: at the look before."""
    started = restarts(job)
    state = _with_end(job, said, before)
    if state.state == "PENDING" and started is not None:
        return replace(state, state="REQUEUED", exit_status=None, restarts=started + 1)
    if state.state == "FAILED" and state.exit_status == PREEMPTED_STATUS:
        note = _text(Path(job.folder) / NOTE_FILE)
        state = replace(state, state="PREEMPTED", reason=note or "stopped, and not put back into the queue")
    # the script writes its number down some moments after SLURM has started it
    return replace(state, restarts=max(started or 0, before.restarts if before is not None else 0))


def _with_end(job: SlurmJob, said: JobState | None, before: JobState | None) -> JobState:
    status = end_word(job)
    if said is not None and said.state == "CANCELLED" and not said.nodes and restarts(job) is None:
        return replace(said, reason=_WAITING, exit_status=status)  # SLURM's reason is why it waited
    if said is not None and (said.ended or said.state == "PENDING"):
        return replace(said, exit_status=status)
    mine = said is None or (status != _STOPPED_STATUS and before is not None and before.exit_status is not None)
    if status is not None and mine:
        return JobState("FAILED" if status else "COMPLETED", "NonZeroExitCode" if status else "", said.nodes if said else "", status)
    if said is not None:
        return replace(said, exit_status=status)
    if before is not None and before.state in ("PENDING", "REQUEUED"):
        return JobState("CANCELLED", _WAITING)
    if restarts(job) is None and (before is None or before.state == "SUBMITTED"):
        # a waiting task of an array is forgotten at once
        return JobState("CANCELLED", f"{_WAITING}, or no node can write to its folder")
    return JobState("LOST", "SLURM no longer knows it, and it has left no word")


def exit_code(slurm_id: str) -> str:
    """SLURM's "status:signal" of an ended job; empty once it is forgotten."""
    try:
        done = subprocess.run(
            ["scontrol", "--oneliner", "show", "job", slurm_id], capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(r"\bExitCode=(\d+:\d+)", done.stdout)
    return found[1] if found else ""


def load_jobs(sweep: Path) -> list[SlurmJob]:
    """Jobs of a sweep, by number; empty without any. Raises ConfigProblems (ZC757) when the file is damaged."""
    path = sweep / SLURM_DIR / JOBS_FILE
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))["jobs"]
        if why := misfit(list[SlurmJob], entries, "jobs"):
            raise ValueError(why)
        if any("\0" in entry["folder"] for entry in entries):
            raise ValueError("a folder's name has a null byte")
        known = {f.name for f in fields(SlurmJob)}
        jobs = []
        for entry in entries:
            kept = {name: value for name, value in entry.items() if name in known}
            last = JobState(**kept["last"]) if kept.get("last") else None
            jobs.append(SlurmJob(**{**kept, "overrides": tuple(kept.get("overrides", ())), "last": last}))
        return sorted(jobs, key=lambda job: job.number)
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as problem:
        hint = f"rename it, to go on without what it says; squeue --me and the folders below {sweep} show the jobs"
        raise ConfigProblems([damaged(path, str(problem), hint=hint)]) from problem


def keep_jobs(sweep: Path, jobs: Iterable[SlurmJob]) -> None:
    """Add jobs to the sweep's list; a job of the same number is replaced."""
    import filelock

    folder = sweep / SLURM_DIR
    folder.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(folder / ".lock"):
        merged = {job.number: job for job in load_jobs(sweep)} | {job.number: job for job in jobs}
        text = json.dumps({"jobs": [asdict(job) for _, job in sorted(merged.items())]}, indent=1)
        replace_text(folder / JOBS_FILE, text + "\n")


def refresh(jobs: Iterable[SlurmJob]) -> tuple[dict[str, JobState], bool]:
    """State of each job now, by its id, and whether the controller has answered; ended ones are not asked for again."""
    listed = list(jobs)
    said = query({job.slurm_id for job in listed if job.last is None})
    states = {}
    for job in listed:
        if job.last is not None:
            states[job.slurm_id] = job.last
        elif said is None:
            status = end_word(job)
            state = "UNKNOWN" if status is None else "FAILED" if status else "COMPLETED"
            states[job.slurm_id] = JobState(state, "the controller does not answer", exit_status=status)
        else:
            states[job.slurm_id] = with_end(job, said.get(job.slurm_id), None)
    return states, said is not None


def check_active(folders: Iterable[Path], sweep: Path) -> Iterator[Diagnostic]:
    """ZC706 for each folder in which SLURM may still run a job of the sweep; ZC757 where that cannot be told."""
    wanted = {os.fspath(folder) for folder in folders}
    try:
        jobs = [job for job in load_jobs(sweep) if job.folder in wanted and job.last is None]
    except ConfigProblems as problems:
        yield from problems.diagnostics
        return
    if not jobs:
        return
    states, answered = refresh(jobs)
    for job in jobs:
        if not states[job.slurm_id].ended:
            yield Diagnostic(
                code="ZC706",
                path="hydra.sweep.dir",
                message=f"SLURM job {job.slurm_id} is using {job.folder}"
                if answered
                else f"SLURM job {job.slurm_id} may still be using {job.folder}: the controller does not answer",
                hint=f"wait for it (`zerocfg jobs {shlex.quote(str(sweep))}`), `scancel {job.slurm_id}`, or another hydra.sweep.dir",
            )
