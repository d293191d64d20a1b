"""zerocfg jobs: the jobs of a sweep, later and from another shell."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from zerocfg.cli import output
from zerocfg.diagnostics import ConfigProblems, Diagnostic
from zerocfg.errors import ZerocfgError
from zerocfg.launch.local_jobs import FINE, local_rows, why_failed
from zerocfg.launch.paths import INNER, JobPaths
from zerocfg.launch.results import read_results
from zerocfg.launch.slurm_script import SLURM_DIR
from zerocfg.launch.slurm_state import JOBS_FILE, JobState, SlurmJob, keep_jobs, load_jobs, refresh, word
from zerocfg.launch.sweep_results import RESULTS, SweepRow, results_table, sweep_row, write_results

_SWEEPS = ("outputs", "multirun")
"""Below them lie zerocfg's and Hydra's own hydra.sweep.dir."""


def jobs_command(directory: str | None = None, *, as_json: bool = False) -> int:
    """Print each job's state and results; of jobs under SLURM also write DIR/results.csv.

    directory: hydra.sweep.dir; None: this folder, else the newest sweep below outputs/ and multirun/, one under SLURM first. as_json: a
    list with the columns of results.csv, slurm_id, reason, nodes and restarts. Status 1 when a job has failed, was stopped or lost.
    """
    sweep = Path(os.path.abspath(directory)) if directory is not None else _newest()
    if sweep is not None and sweep.is_dir():
        try:
            if jobs := load_jobs(sweep):
                return _under_slurm(sweep, jobs, as_json=as_json)
        except ConfigProblems as damaged:
            return _refused(damaged.diagnostics, as_json=as_json)
        if rows := local_rows(sweep):
            return _local(sweep, rows, as_json=as_json)
    return _refused([_absent(sweep, directory)], as_json=as_json)


def _refused(problems: Sequence[Diagnostic], *, as_json: bool) -> int:
    output.report(problems)
    if as_json:
        output.report_json(problems)
    return 1


def _local(sweep: Path, rows: list[SweepRow], *, as_json: bool) -> int:
    failed = [row for row in rows if row.state not in FINE]
    if as_json:
        output.product_json([{**asdict(row), "slurm_id": "", "reason": "", "nodes": "", "restarts": 0} for row in rows])
    else:
        output.product(results_table(rows))
        for row in failed:
            for line in why_failed(row):
                output.product(line)
        output.say(str(sweep))
    return 1 if failed else 0


def _under_slurm(sweep: Path, jobs: list[SlurmJob], *, as_json: bool) -> int:
    states, answered = refresh(jobs)
    if not answered:
        output.say("SLURM's controller does not answer: states of open jobs are not known")
    else:
        keep_jobs(sweep, [replace(j, last=states[j.slurm_id]) for j in jobs if j.last is None and states[j.slurm_id].ended])
    rows = [sweep_row(job.number, word(states[job.slurm_id].state), job.overrides, Path(job.folder)) for job in jobs]
    try:
        written = str(write_results(sweep, rows))
    except OSError as error:
        raise ZerocfgError(f"{sweep}/results.csv cannot be written: {error.strerror or error}") from error
    if as_json:
        output.product_json([_entry(row, job, states[job.slurm_id]) for row, job in zip(rows, jobs, strict=True)])
    else:
        where = [state.nodes or state.reason for state in (states[job.slurm_id] for job in jobs)]
        restarts = [str(states[job.slurm_id].restarts or "") for job in jobs]
        extra = [("SLURM", [job.slurm_id for job in jobs]), ("where or why", where), ("restarts", restarts)]
        output.product(results_table(rows, extra))
        for line in _failures(jobs, states, sweep):
            output.product(line)
        output.say(written)
    return 1 if any(state.ended and state.state != "COMPLETED" for state in states.values()) else 0


def _entry(row: SweepRow, job: SlurmJob, state: JobState) -> dict[str, object]:
    return {**asdict(row), "slurm_id": job.slurm_id, "reason": state.reason, "nodes": state.nodes, "restarts": state.restarts}


def _failures(jobs: list[SlurmJob], states: dict[str, JobState], sweep: Path) -> Iterator[str]:
    for job in jobs:
        state = states[job.slurm_id]
        if not state.ended or state.state == "COMPLETED":
            continue
        paths = JobPaths(Path(job.folder))
        errors = sorted((r for r in read_results(paths).values() if not r.ok), key=lambda r: r.time)
        status = f"exit status {state.exit_status}" if state.exit_status else ""
        why, log = ", ".join(filter(None, (state.reason, status))), sweep / SLURM_DIR / job.batch_log
        if errors and state.state != "PREEMPTED":
            why, log = f"rank {errors[0].rank} of {job.world_size}: {errors[0].error}", paths.rank_log(errors[0].rank)
        elif paths.preflight_report.is_file():
            first = paths.preflight_report.read_text(encoding="utf-8").partition("\n")[0]
            why, log = f"its preflight: {first}", paths.preflight_report
        how = "cancelled in SLURM (scancel)" if state.state == "CANCELLED" else word(state.state)
        yield f"job {job.number}: {how}: {why}" if why else f"job {job.number}: {how}"
        if log.is_file():
            yield f"  log: {log}"


def _newest() -> Path | None:
    here = Path.cwd()
    if (here / SLURM_DIR / JOBS_FILE).is_file() or (here / RESULTS).is_file():
        return here
    tops = [here / name for name in _SWEEPS]
    submitted = [path for top in tops for depth in ("*", "*/*") for path in top.glob(f"{depth}/{SLURM_DIR}/{JOBS_FILE}")]
    if submitted:
        return max(submitted, key=lambda path: path.stat().st_mtime).parents[1]
    jobs = [(path, top) for top in tops for depth in ("*", "*/*", "*/*/*") for path in top.glob(f"{depth}/{INNER}")]
    if jobs:
        path, top = max(jobs, key=lambda job: job[0].stat().st_mtime)
        return _sweep_of(path.parent, top)
    return None


def _sweep_of(job: Path, top: Path) -> Path:
    """outputs/DATE/TIME/0 is a job of outputs/DATE/TIME, outputs/NAME/0 of the sweep outputs/NAME; one of `zerocfg launch` is alone."""
    in_sweep = len(job.relative_to(top).parts) > 2 or (job.parent / "multirun.yaml").is_file()
    return job.parent if in_sweep else job


def _absent(sweep: Path | None, directory: str | None) -> Diagnostic:
    if sweep is None:
        what = "neither this folder nor outputs/ or multirun/ below it holds a sweep"
    elif not sweep.is_dir():
        what = f"{directory} is no folder" if sweep.exists() else f"{directory}: there is no such folder"
    else:
        what = f"{directory} holds no job of a sweep"
    return Diagnostic(code="ZC733", message=what, hint="zerocfg jobs DIR, with the launch's hydra.sweep.dir: outputs/DATE/TIME")
