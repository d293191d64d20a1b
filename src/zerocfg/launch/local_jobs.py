"""The jobs of a sweep on this machine, from what they have left, while it runs and later."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from zerocfg.emit import COMPILED
from zerocfg.launch.folders import in_use
from zerocfg.launch.paths import INNER, JobPaths
from zerocfg.launch.results import read_results, saved_and_stopped
from zerocfg.launch.sweep_results import SweepRow, read_rows, sweep_row

FINE = frozenset({"done", "finished before", "infeasible", "not started", "running"})
"""States of a job that has not failed."""


def local_rows(sweep: Path) -> list[SweepRow]:
    """Rows of results.csv, and of job folders that are not in it (yet); a job that runs now is `running`. Empty: no job was here."""
    rows = {row.job: row for row in read_rows(sweep)}
    known = {row.folder for row in rows.values()}
    for folder in _job_folders(sweep):
        if str(folder) not in known:
            number = _number(folder, rows)
            rows[number] = sweep_row(number, _state(folder), overrides_of(folder), folder)
    return [_now(rows[number]) for number in sorted(rows)]


def why_failed(row: SweepRow) -> Iterator[str]:
    """Lines on a job that did not end well: its first error, and the log that has it."""
    paths = JobPaths(Path(row.folder))
    errors = sorted((r for r in read_results(paths).values() if not r.ok and r.preempted is None), key=lambda r: r.time)
    if errors:
        yield f"job {row.job}: {row.state}: rank {errors[0].rank} of {_world_size(paths.root)}: {errors[0].error}"
    else:
        yield f"job {row.job}: {row.state}" + (": it has left no word of its end" if row.state == "unknown" else "")
    log = paths.rank_log(errors[0].rank) if errors else paths.starter_log
    if log.is_file():
        yield f"  log: {log}"


def _job_folders(sweep: Path) -> list[Path]:
    """hydra.sweep.subdir may name folders in folders, or be the sweep's own."""
    if (sweep / INNER).is_dir():
        return [sweep]
    return sorted(path.parent for depth in ("*", "*/*") for path in sweep.glob(f"{depth}/{INNER}") if path.is_dir())


def _number(folder: Path, taken: dict[int, SweepRow]) -> int:
    """hydra.job.num, which names the folder unless hydra.sweep.subdir says otherwise; then the next one that is free."""
    if folder.name.isdecimal() and int(folder.name) not in taken:
        return int(folder.name)
    return max(taken, default=-1) + 1


def _now(row: SweepRow) -> SweepRow:
    return replace(row, state="running") if row.folder and in_use(Path(row.folder)) else row


def _state(folder: Path) -> str:
    paths = JobPaths(folder)
    results = read_results(paths)
    if not results and not any(log.is_file() for log in (paths.starter_log, paths.rank_log(0))):
        return "not started"
    if saved_and_stopped(results) is not None:
        return "stopped"
    if any(not result.ok for result in results.values()):
        return "failed"
    return "done" if len(results) == _world_size(folder) else "unknown"


def _world_size(folder: Path) -> int:
    try:
        topology = json.loads((folder / COMPILED / "plan.json").read_text(encoding="utf-8"))["topology"]
        return int(topology["num_nodes"]) * int(topology["nproc_per_node"])
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return 1  # one plain process


def overrides_of(folder: Path) -> list[str]:
    """Of a job's folder, as Hydra keeps them."""
    import yaml

    try:
        found = yaml.safe_load((folder / ".hydra" / "overrides.yaml").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return []
    return [str(line) for line in found] if isinstance(found, list) else []
