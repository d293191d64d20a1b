"""metrics.jsonl and summary.json of a folder that was trained in before."""

from __future__ import annotations

import json
import logging
from pathlib import Path

from zerocfg.emit import replace_text, set_aside
from zerocfg.units import counted

log = logging.getLogger("zerocfg")
METRICS = "metrics.jsonl"
SUMMARY = "summary.json"


def drop_redone(metrics: Path, start: int) -> None:
    """Leave out the lines after the step that a start begins with: those steps are done again. Also a line cut short."""
    try:
        lines = metrics.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
    except FileNotFoundError:
        return
    kept = [line for line in lines if (step := _step_of(line)) is not None and step <= start]
    if len(kept) < len(lines):
        replace_text(metrics, "".join(kept))
        log.info("%s: %s after step %d dropped, to be done again", metrics.name, counted(len(lines) - len(kept), "line"), start)


def _step_of(line: str) -> int | None:
    try:
        return int(json.loads(line)["step"]) if line.endswith("\n") else None
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def keep_earlier(folder: Path) -> None:
    """An earlier run's files get a number."""
    for name in (METRICS, SUMMARY):
        kept = set_aside(folder / name)
        if kept is not None:
            log.info("%s of an earlier run is kept as %s", name, kept.name)
