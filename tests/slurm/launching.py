"""app.py, which is one plain process a job, and its launcher as a process: shared by the tests of hydra/launcher=zerocfg_slurm."""

from __future__ import annotations

import csv
import os
import pickle
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from zerocfg.launch.paths import JobPaths
from zerocfg.launch.results import read_results

CONFIG = """
defaults:
  - _self_
  - override hydra/launcher: zerocfg_slurm
a: 1
what: answer
text: ''
hydra:
  mode: MULTIRUN
  sweep: {dir: out dir, subdir: "${hydra.job.num}"}
  launcher: {poll_seconds: 0.3}
"""


def write_app(folder: Path) -> Path:
    shutil.copy(Path(__file__).with_name("app.py"), folder)
    (folder / "config.yaml").write_text(CONFIG)
    return folder


def run(app: Path, *overrides: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "app.py", *overrides]
    return subprocess.run(command, cwd=app, env={**os.environ, **environ}, capture_output=True, text=True, timeout=120, check=False)


def zerocfg(app: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "zerocfg", *words], cwd=app, capture_output=True, text=True, timeout=60, check=False)


def results(sweep: Path) -> list[dict[str, str]]:
    with (sweep / "results.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def value_of(job: Path) -> Any:
    return pickle.loads(read_results(JobPaths(job))[0].value)


def eventually(probe: Callable[[], object], timeout: float = 60) -> None:
    deadline = time.monotonic() + timeout
    while not probe():
        assert time.monotonic() < deadline, f"not within {timeout} s"
        time.sleep(0.1)


class Background:
    """A launcher that waits for its jobs."""

    def __init__(self, app: Path, *overrides: str) -> None:
        self.out = app / "launcher.txt"
        with self.out.open("w") as file:
            self.process = subprocess.Popen([sys.executable, "app.py", *overrides], cwd=app, stdout=file, stderr=subprocess.STDOUT)

    def __enter__(self) -> Background:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def end(self, timeout: float = 60) -> tuple[int, str]:
        return self.process.wait(timeout), self.out.read_text()
