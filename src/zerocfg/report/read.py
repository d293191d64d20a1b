"""The files of a run or a sweep -> what a page shows. Nothing is unpickled: a folder may be anybody's."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from zerocfg.diagnostics import ConfigProblems, Diagnostic
from zerocfg.emit import COMPILED
from zerocfg.hidden import HIDDEN, hide_override, hide_values, is_secret
from zerocfg.launch.folders import in_use
from zerocfg.launch.local_jobs import overrides_of
from zerocfg.launch.paths import INNER, JobPaths
from zerocfg.launch.slurm_state import load_jobs, word
from zerocfg.launch.sweep_results import RESULTS, SweepRow, read_rows
from zerocfg.memory import PARTS, ModelNotDescribed, estimate
from zerocfg.report.data import JobData, Log, Prediction, RunData, Saved, SweepData, number
from zerocfg.runtime.checkpoint_files import survey
from zerocfg.runtime.stored_plan import plan_from

_TAIL_BYTES, _TAIL_LINES, _LINE_LENGTH = 65536, 25, 400
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_ASSIGNED = re.compile(r"\b([A-Z][A-Z0-9_]{2,})(['\"]?\s*[=:]\s*['\"]?)([^\s'\",}]+)")
_TROUBLE = ("Traceback (most recent call last)", "error[ZC")
_CAUSE = re.compile(r"Root Cause.*?\brank\s*: (\d+)", re.DOTALL)
"""In torchrun's report."""
_ENDED_WELL = ("done", "running", "pending", "not started")


def read_folder(folder: Path) -> RunData | SweepData:
    """A sweep of one job is that job. Raises ConfigProblems (ZC184) when it is neither."""
    if not folder.is_dir():
        raise ConfigProblems([_neither(folder, "it is no folder" if folder.exists() else "there is no such folder")])
    if _is_run(folder):
        return read_run(folder)
    sweep = read_sweep(folder)
    if len(sweep.jobs) == 1 and (only := sweep.jobs[0].run) is not None:
        return only
    if not sweep.jobs:
        raise ConfigProblems([_neither(folder, "no job has left anything in it")])
    return sweep


def _neither(folder: Path, why: str) -> Diagnostic:
    return Diagnostic(
        code="ZC184",
        message=f"{folder} is neither a run nor a sweep: {why}",
        detail=("a run's folder has compiled/ and metrics.jsonl, a sweep's holds the folders of its jobs",),
        hint="zerocfg report outputs/DATE/TIME, or hydra.sweep.dir of the launch",
    )


def _is_run(folder: Path) -> bool:
    paths = JobPaths(folder)
    return any(path.exists() for path in (folder / COMPILED / "plan.json", paths.metrics, paths.summary, folder / INNER))


def read_sweep(folder: Path) -> SweepData:
    """Jobs of results.csv and of SLURM's list, and further folders of jobs: of a sweep that still runs."""
    notes: list[str] = []
    rows = {row.job: row for row in read_rows(folder)}
    if not rows and (folder / RESULTS).exists():
        notes.append(f"{RESULTS} cannot be read: states are told from the folders")
    try:
        for job in load_jobs(folder):
            state = word(job.last.state) if job.last is not None else "unknown"
            rows.setdefault(job.number, SweepRow(job=job.number, state=state, overrides=" ".join(job.overrides), folder=job.folder))
    except ConfigProblems as problems:
        notes.append(problems.diagnostics[0].message)
    jobs, seen = [], set()
    for row in (rows[key] for key in sorted(rows)):
        place = _place(folder, row.folder)
        seen.add(place.resolve() if place is not None else None)
        run = read_run(place, state=row.state) if place is not None and _is_run(place) else None
        overrides = (run.overrides if run is not None else ()) or tuple(hide_assigned(row.overrides).split())
        jobs.append(JobData(label=str(row.job), state=row.state, overrides=overrides, objective=number(row.objective), run=run))
    for place in _runs_below(folder):
        if place.resolve() not in seen:
            run = read_run(place)
            label = str(place.relative_to(folder))
            jobs.append(JobData(label=label, state=run.state, overrides=run.overrides, objective=None, run=run))
    return SweepData(name=folder.resolve().name, folder=str(folder), jobs=tuple(jobs), notes=tuple(notes))


def _place(sweep: Path, written: str) -> Path | None:
    """A job's folder, also when the sweep was moved since."""
    if not written:
        return None
    parts = Path(written).parts
    candidates = (Path(written), *(sweep.joinpath(*parts[-depth:]) for depth in (1, 2)))
    return next((path for path in candidates if path.is_dir()), None)


def _runs_below(folder: Path) -> list[Path]:
    def natural(path: Path) -> list[Any]:
        return [(not piece.isdigit(), int(piece) if piece.isdigit() else 0, piece) for piece in re.split(r"(\d+)", str(path))]

    found = []
    for child in sorted((p for p in folder.iterdir() if p.is_dir() and not p.name.startswith(".")), key=natural):
        if _is_run(child):
            found.append(child)
        else:
            found += [p for p in sorted(child.iterdir(), key=natural) if p.is_dir() and _is_run(p)]
    return found


def read_run(folder: Path, *, state: str = "") -> RunData:
    """state: what results.csv says; empty: told from the files."""
    paths = JobPaths(folder)
    notes: list[str] = []
    plan, deepspeed, environment = (_mapping(folder / COMPILED / f"{name}.json", notes) for name in ("plan", "ds_config", "environment"))
    torchrun = _json(folder / COMPILED / "torchrun.json", notes)
    records = _records(paths.metrics, notes)
    summary = _mapping(paths.summary, notes if not records else [])
    logs, failed = _telling_logs(folder, paths)
    if not state:
        state = _state(folder, summary, failed=failed, begun=bool(records or logs))
    if not summary and records:
        why = "the run has not ended" if state == "running" else "the run has not ended, or it was killed"
        notes.append(f"summary.json is not there: {why}; numbers are those of the last logged step")
    checkpoints, damaged = survey(folder / _directory(plan))
    return RunData(
        name=f"{folder.resolve().parent.name}/{folder.resolve().name}",
        folder=str(folder),
        state=state,
        overrides=tuple(hide_override(word) for word in overrides_of(folder)),
        plan=plan,
        deepspeed=_without_secrets(deepspeed),
        torchrun=tuple(str(word) for word in torchrun) if isinstance(torchrun, list) else (),
        environment={name: HIDDEN if is_secret(name) else str(value) for name, value in environment.items()},
        records=records,
        summary=summary,
        prediction=_prediction(plan, notes),
        checkpoints=tuple(Saved(step=c.step, path=c.path.name, size_bytes=_size(c.manifest.get("files"))) for c in checkpoints),
        damaged=tuple(damaged),
        logs=logs if state not in _ENDED_WELL else (),
        notes=tuple(notes),
    )


def _state(folder: Path, summary: Mapping[str, Any], *, failed: bool, begun: bool) -> str:
    if in_use(folder):
        return "running"
    if summary:
        return "done" if summary.get("finished") is True else "failed" if failed else "stopped"
    return "failed" if failed else "unknown" if begun else "not started"


def _json(path: Path, notes: list[str]) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        notes.append(f"{_short(path)} is not there")
    except (OSError, ValueError, RecursionError) as problem:
        notes.append(f"{_short(path)} cannot be read: {str(problem).splitlines()[0][:200]}")
    return None


def _short(path: Path) -> str:
    return f"{COMPILED}/{path.name}" if path.parent.name == COMPILED else path.name


def _mapping(path: Path, notes: list[str]) -> dict[str, Any]:
    found = _json(path, notes)
    if found is None or isinstance(found, dict):
        return found or {}
    notes.append(f"{_short(path)} holds no mapping")
    return {}


def _records(metrics: Path, notes: list[str]) -> tuple[dict[str, Any], ...]:
    try:
        lines = metrics.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        notes.append(f"{metrics.name} is not there: nothing was logged")
        return ()
    except OSError as problem:
        notes.append(f"{metrics.name} cannot be read: {problem.strerror}")
        return ()
    by_step: dict[float, dict[str, Any]] = {}
    broken = 0
    for line in lines:
        try:
            entry = json.loads(line)
            step = number(entry["step"])
        except (ValueError, KeyError, TypeError, RecursionError):
            step = None
        if step is None or not 0 <= step < 1e15:
            broken += 1
            continue
        by_step[step] = {"step": step, **{name: value for name, item in entry.items() if (value := number(item)) is not None}}
    if broken:
        notes.append(f"{metrics.name}: {broken} of {len(lines)} lines cannot be read and {'is' if broken == 1 else 'are'} left out")
    return tuple(by_step[step] for step in sorted(by_step))


def _directory(plan: Mapping[str, Any]) -> str:
    section = plan.get("checkpoint")
    return str(section.get("directory", "checkpoints")) if isinstance(section, Mapping) else "checkpoints"


def _size(files: object) -> int:
    return sum(int(size) for size in files.values()) if isinstance(files, Mapping) else 0


def _prediction(stored: Mapping[str, Any], notes: list[str]) -> Prediction | None:
    if not stored:
        return None
    try:
        plan = plan_from(stored)
        if not plan.hardware.is_cuda:
            return None
        found = estimate(plan)
    except ModelNotDescribed:
        return None
    except Exception as problem:  # written by another version of zerocfg, or damaged
        notes.append(f"no prediction of memory: {COMPILED}/plan.json is of another version or damaged ({type(problem).__name__})")
        return None
    return Prediction(parts={PARTS.get(name, name): size for name, size in found.parts.items()}, memory_bytes=found.memory_bytes)


def _without_secrets(node: Any) -> Any:
    if isinstance(node, Mapping):
        return {str(k): HIDDEN if isinstance(v, str) and is_secret(str(k)) else _without_secrets(v) for k, v in node.items()}
    return [_without_secrets(item) for item in node] if isinstance(node, list) else node


def _telling_logs(folder: Path, paths: JobPaths) -> tuple[tuple[Log, ...], bool]:
    """(logs that say how a run ended, whether they tell of a failure).

    A preflight's report; the first rank's with a traceback; that of the rank that torchrun names as the cause, and torchrun's own;
    else rank 0's, or torchrun's.
    """

    def rank(path: Path) -> int:
        return int(path.stem.removeprefix("rank_"))

    if report := _text(paths.preflight_report):
        return (_end(report, paths.preflight_report, folder),), True
    found = sorted((p for p in folder.glob("rank_*.log") if p.stem.removeprefix("rank_").isdigit()), key=rank)
    ranks = {rank(path): (path, text) for path in found if (text := _text(path))}
    for path, text in ranks.values():
        if any(mark in text for mark in _TROUBLE):
            return (_end(text, path, folder),), True
    said = _text(paths.starter_log)
    if cause := _CAUSE.search(said):
        own = [entry for first, entry in ranks.items() if first == int(cause[1])]
        return tuple(_end(text, path, folder) for path, text in [*own, (paths.starter_log, said[said.rfind("Failures:") :])]), True
    last = [*list(ranks.values())[:1], *([(paths.starter_log, said)] if said else [])]
    return tuple(_end(text, path, folder) for path, text in last[:1]), False


def _text(path: Path) -> str:
    """The end of a file; empty without one."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - _TAIL_BYTES))
            return file.read().decode("utf-8", errors="replace").strip()
    except OSError:
        return ""


def _end(text: str, path: Path, folder: Path) -> Log:
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    # a traceback is shown from its start
    start = next((i for i in range(len(lines) - 1, -1, -1) if any(mark in lines[i] for mark in _TROUBLE)), len(lines))
    shown = lines[min(max(start, len(lines) - 4 * _TAIL_LINES), max(0, len(lines) - _TAIL_LINES)) :]
    return Log(name=str(path.relative_to(folder)), lines=tuple(clean(shown)))


def clean(lines: Iterable[str], environ: Mapping[str, str] = os.environ) -> list[str]:
    """Log lines without terminal colours, and without the values of secrets, those of this process's environment included."""
    secrets = [value for name, value in environ.items() if is_secret(name)]
    return [hide_assigned(hide_values(_ANSI.sub("", line), secrets))[:_LINE_LENGTH] for line in lines]


def hide_assigned(text: str) -> str:
    """Without the values of names in capitals that promise a secret: HF_TOKEN=abc, {MY_KEY: abc}."""
    return _ASSIGNED.sub(lambda match: f"{match[1]}{match[2]}{HIDDEN}" if is_secret(match[1]) else match[0], text)
