"""What the user sees while jobs run. One job: rank 0's log as it grows. Several: a table on a terminal, else all lines, numbered."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any

from zerocfg.launch.follow import Follower, Tail
from zerocfg.launch.output import write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zerocfg.launch.local import LocalJob


class _Lines:
    """A job's log, each line with the job's number before it."""

    def __init__(self, number: int, tail: Tail) -> None:
        self._prefix = f"[{number}] "
        self._tail = tail
        self._rest = ""

    def pump(self, *, last: bool = False) -> None:
        *lines, self._rest = (self._rest + self._tail.read()).split("\n")
        if last and self._rest:
            lines, self._rest = [*lines, self._rest], ""
        if lines:
            write("".join(f"{self._prefix}{line}\n" for line in lines))


class Board:
    """total: jobs of the launch. bar: show moving things where there is a terminal."""

    def __init__(self, total: int, *, bar: bool) -> None:
        self._streams = total == 1
        self._total = total
        self._bar = bar
        self._live: Any = None
        self._stack = ExitStack()
        self._followers: dict[int, Follower] = {}
        self._metrics: dict[int, Tail] = {}
        self._logs: dict[int, _Lines] = {}
        self._last: dict[int, dict[str, Any]] = {}

    @property
    def shows_logs(self) -> bool:
        """What rank 0 of each job writes goes to the terminal, a traceback too."""
        return self._live is None

    def __enter__(self) -> Board:
        if not self._streams and self._bar and sys.stdout.isatty():
            from rich.live import Live

            self._live = self._stack.enter_context(Live(refresh_per_second=4, transient=True))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()

    def add(self, job: LocalJob) -> None:
        if self._streams:
            steps = job.job.run.plan.train.steps if job.job.run is not None else 0
            self._followers[job.job.number] = self._stack.enter_context(Follower(job.paths, total_steps=steps, bar=self._bar))
        elif self._live is not None:
            self._metrics[job.job.number] = Tail(job.paths.metrics)
        else:
            self._logs[job.job.number] = _Lines(job.job.number, Tail(job.paths.rank_log(0)))

    def remove(self, job: LocalJob) -> None:
        if (follower := self._followers.pop(job.job.number, None)) is not None:
            follower.pump()
        self._metrics.pop(job.job.number, None)
        if (lines := self._logs.pop(job.job.number, None)) is not None:
            lines.pump(last=True)

    def update(self, running: Sequence[LocalJob], waiting: int) -> None:
        for follower in self._followers.values():
            follower.pump()
        for lines in self._logs.values():
            lines.pump()
        if self._live is not None:
            self._live.update(self._table(running, waiting))

    def _table(self, running: Sequence[LocalJob], waiting: int) -> Any:
        from rich.table import Table

        ended = self._total - waiting - len(running)
        table = Table(title=f"{len(running)} running, {waiting} waiting, {ended} ended of {self._total}", title_justify="left")
        for name in ("job", "state", "GPUs", "elapsed", "step", "loss", "overrides"):
            table.add_column(name)
        for job in running:
            record = self._record(job.job.number)
            loss = record.get("loss")
            table.add_row(
                str(job.job.number),
                "running",
                ",".join(d.entry for d in job.lease.devices),
                f"{job.seconds:.0f} s",
                str(record.get("step", "")),
                f"{loss:.4g}" if isinstance(loss, (int, float)) else "",
                " ".join(job.job.overrides),
            )
        return table

    def _record(self, number: int) -> dict[str, Any]:
        """The last line of a job's metrics.jsonl."""
        tail = self._metrics.get(number)
        for line in reversed((tail.read() if tail else "").splitlines()):
            try:
                record = json.loads(line)
            except ValueError:
                continue  # half a line
            if isinstance(record, dict):
                self._last[number] = record
                break
        return self._last.get(number, {})
