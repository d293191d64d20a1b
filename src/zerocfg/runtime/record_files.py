"""metrics.jsonl and summary.json of a folder that was trained in before."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zerocfg.emit import replace_text, set_aside
from zerocfg.units import counted

log = logging.getLogger("zerocfg")
METRICS = "metrics.jsonl"
SUMMARY = "summary.json"


class Lines:
    """A file of lines that grows. One that cannot be written is lost; the first of a row of them is told."""

    def __init__(self, path: Path) -> None:
        """path: an OSError is raised where it cannot be opened for writing."""
        self._path = path
        self._failed = False
        path.open("ab").close()

    def append(self, line: str) -> None:
        try:
            with self._path.open("a+b") as file:
                half = self._failed and file.seek(0, os.SEEK_END) > 0 and file.seek(-1, os.SEEK_END) >= 0 and file.read(1) != b"\n"
                file.write(("\n" * half + line + "\n").encode())
            self._failed = False
        except OSError as problem:
            if not self._failed:
                log.warning("%s cannot be written: %s; the run goes on", self._path, problem.strerror or problem)
            self._failed = True


def keep_summary(path: Path, summary: Mapping[str, Any]) -> None:
    """Write summary.json as a whole, or say why not."""
    try:
        replace_text(path, json.dumps(summary, indent=2) + "\n")
    except OSError as problem:
        log.warning("%s cannot be written: %s", path, problem.strerror or problem)


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
