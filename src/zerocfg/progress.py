"""A bar of training steps for a terminal, with lines of text above it."""

from __future__ import annotations

import json
from typing import Any


class StepBar:
    """total: optimizer steps."""

    def __init__(self, total: int) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._progress = Progress(
            TextColumn("step"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn(), transient=True
        )
        self._task = self._progress.add_task("", total=total)
        self._rest = ""
        self._progress.start()

    def write(self, text: str) -> None:
        """Show text above the bar; an unfinished line waits for its end."""
        from rich.text import Text

        lines = (self._rest + text).split("\n")
        self._rest = lines.pop()
        for line in lines:
            # a carriage return rewrites a line; its last state is what counts
            self._progress.console.print(Text.from_ansi(line.rstrip("\r").rpartition("\r")[2]), soft_wrap=True)

    def advance(self, line: str) -> None:
        """line: one line of metrics.jsonl; another is left alone."""
        try:
            record: dict[str, Any] = json.loads(line)
            self._progress.update(self._task, completed=record["step"], description=f"loss {record['loss']:.4g}")
        except (ValueError, KeyError, TypeError):
            return

    def close(self) -> None:
        if self._rest:
            self.write("\n")
        self._progress.stop()
