from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from zerocfg.cli import main

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Run one command line in this process, in an empty folder: (status, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = main(list(words))
        out, err = capsys.readouterr()
        return status, out, err

    return run


@pytest.fixture
def process(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run one command line as a process of its own, without a shell."""

    def run(*words: str | bytes, cwd: Path = tmp_path, **environ: str) -> subprocess.CompletedProcess[str]:
        command: list[str | bytes] = [sys.executable, "-m", "zerocfg", *words]
        return subprocess.run(command, cwd=cwd, env={**os.environ, **environ}, capture_output=True, text=True, timeout=120)

    return run
