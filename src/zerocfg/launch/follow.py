"""What the user sees while a job runs: rank 0's log as it grows and, on a terminal, a bar fed from metrics.jsonl."""

from __future__ import annotations

import os
import sys
from codecs import getincrementaldecoder
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from zerocfg.launch.output import OutputClosed, write
from zerocfg.launch.paths import JobPaths
from zerocfg.progress import StepBar


class Tail:
    """New text of a growing file at each call, of its successor once it is replaced; an absent file is an empty one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._file = 0
        """Inode: another one is another file, of a job that was started again."""
        self._decoder = getincrementaldecoder("utf-8")(errors="replace")

    def read(self) -> str:
        try:
            with self._path.open("rb") as file:
                if self._file != (here := os.fstat(file.fileno()).st_ino):
                    self._file, self._offset = here, 0
                file.seek(self._offset)
                data = file.read()
        except OSError:
            return ""  # not there yet, or no longer
        self._offset += len(data)
        return self._decoder.decode(data)


class Follower:
    """Shows one job. total_steps: of its training loop, 0 when that is not known."""

    def __init__(self, paths: JobPaths, *, total_steps: int, bar: bool) -> None:
        self._log = Tail(paths.rank_log(0))
        self._metrics = Tail(paths.metrics)
        self._rest = ""
        self._progress = StepBar(total_steps) if bar and total_steps > 0 and sys.stdout.isatty() else None

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with suppress(OutputClosed):
            self.pump()
        if self._progress is not None:
            self._progress.close()

    def pump(self) -> None:
        """Show what is new."""
        text = self._log.read()
        if self._progress is None:
            if text:
                write(text)
            return
        if text:
            self._progress.write(text)
        lines = (self._rest + self._metrics.read()).split("\n")
        self._rest = lines.pop()
        for line in lines:
            self._progress.advance(line)
