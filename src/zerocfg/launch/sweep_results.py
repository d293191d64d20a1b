"""results.csv and a table of a sweep: a row a job, from what its ranks have left in its folder."""

from __future__ import annotations

import csv
import io
import json
import pickle
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from zerocfg.emit import replace_text
from zerocfg.launch.paths import JobPaths
from zerocfg.launch.results import read_results
from zerocfg.units import human_bytes

RESULTS = "results.csv"


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepRow:
    """Its fields are the columns. An empty value: not known, or the script keeps no record of it."""

    job: int
    state: str
    overrides: str
    """Of the task, separated by blanks."""
    objective: float | None = None
    """Rank 0's return value where it is a number."""
    last_loss: float | None = None
    tokens_per_s: float | None = None
    """Of all ranks."""
    peak_memory_bytes: int | None = None
    """Of the rank that needs most."""
    seconds: float | None = None
    """Of the training loop."""
    folder: str = ""


def sweep_row(number: int, state: str, overrides: Sequence[str], folder: Path) -> SweepRow:
    """Read rank 0's result and summary.json; of a job that still runs, the last line of metrics.jsonl. What is missing stays empty."""
    paths = JobPaths(folder)
    summary = _mapping(paths.summary) or _last_record(paths.metrics)
    return SweepRow(
        job=number,
        state=state,
        overrides=" ".join(overrides),
        objective=_objective(paths),
        folder=str(folder),
        **{name: _number(summary.get(name)) for name in ("last_loss", "tokens_per_s", "peak_memory_bytes", "seconds")},
    )


def _mapping(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}  # the script keeps none
    return found if isinstance(found, dict) else {}


def _last_record(metrics: Path) -> dict[str, Any]:
    """The last whole line, under summary.json's names."""
    with suppress(OSError):  # none yet
        for line in reversed(metrics.read_text(encoding="utf-8", errors="replace").splitlines()):
            with suppress(ValueError, AttributeError, RecursionError):  # half a line
                found = json.loads(line)
                return {**found, "last_loss": found.get("loss"), "peak_memory_bytes": found.get("memory_bytes")}
    return {}


def _objective(paths: JobPaths) -> float | None:
    try:
        first = read_results(paths).get(0)
        return _number(pickle.loads(first.value)) if first is not None and first.ok and first.value else None
    except Exception:
        return None  # of a type that cannot be read here


def _number(value: object) -> Any:
    """A whole number stays one; numpy's and torch's scalars count."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return None
    if isinstance(value, (int, float)):
        return value
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None


def write_results(sweep: Path, rows: Iterable[SweepRow]) -> Path:
    """Write sweep/results.csv as a whole, a line a job."""
    text = io.StringIO()
    names = [field.name for field in fields(SweepRow)]
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: "" if (value := getattr(row, name)) is None else value for name in names})
    path = sweep / RESULTS
    replace_text(path, text.getvalue())
    return path


def read_rows(sweep: Path) -> list[SweepRow]:
    """What `write_results` wrote before; empty when there is none that can be read."""
    try:
        with (sweep / RESULTS).open(encoding="utf-8", newline="") as file:
            return [_row(entry) for entry in csv.DictReader(file)]
    except (OSError, ValueError, TypeError, csv.Error):
        return []


def _row(entry: dict[str, str]) -> SweepRow:
    """Raises ValueError or TypeError for a line that `write_results` does not write."""
    if not entry.get("job") or None in entry or None in entry.values() or "\0" in str(entry.get("folder")):
        raise ValueError("a line that has not all columns, or more")
    kinds: dict[str, Any] = {"job": int, "state": str, "overrides": str, "folder": str}
    names = {field.name for field in fields(SweepRow)}
    values: dict[str, Any] = {
        name: kinds.get(name, float)(text) if text or kinds.get(name) is str else None for name, text in entry.items() if name in names
    }
    return SweepRow(**values)


_NUMBERS = ("objective", "loss", "tokens/s", "peak memory")


def results_table(rows: Sequence[SweepRow], extra: Sequence[tuple[str, Sequence[str]]] = ()) -> str:
    """The rows as aligned text, numbers to the right; columns without any value are left out. extra: further columns after the state."""
    columns: list[tuple[str, Sequence[str]]] = [
        ("job", [str(row.job) for row in rows]),
        ("state", [row.state for row in rows]),
        *extra,
        ("objective", [_short(row.objective) for row in rows]),
        ("loss", [_short(row.last_loss) for row in rows]),
        ("tokens/s", ["" if row.tokens_per_s is None else f"{row.tokens_per_s:,.0f}" for row in rows]),
        ("peak memory", ["" if row.peak_memory_bytes is None else human_bytes(row.peak_memory_bytes) for row in rows]),
        ("overrides", [_one_line(row.overrides) for row in rows]),
    ]
    shown = [(name, values) for name, values in columns if any(values)]
    widths = [max(len(name), *(len(v) for v in values)) for name, values in shown]
    lines = [[name for name, _ in shown], *([values[i] for _, values in shown] for i in range(len(rows)))]
    sides = [">" if name in _NUMBERS else "<" for name, _ in shown]
    return "\n".join(
        "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(line, sides, widths, strict=True)).rstrip() for line in lines
    )


def _short(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
