"""What is found out about checkpoints before a job is started."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zerocfg.compiler import compile_run
from zerocfg.launch.resume import check_resume

Make = Callable[..., dict[str, Any]]


def test_a_directory_that_cannot_be_written(container: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = compile_run(container({"checkpoint.every_steps": 5})).plan
    job = tmp_path / "out/0"
    assert list(check_resume(plan, job)) == []
    assert not job.exists()
    job.mkdir(parents=True)
    (job / "checkpoints").write_text("a file")
    (problem,) = check_resume(plan, job)
    assert problem.render() == (
        f"error[ZC774] checkpoint.directory: {job}/checkpoints cannot be written: {job}/checkpoints is no folder\n"
        "  try: checkpoint.directory=checkpoints, below the job's folder; or a folder that you may write on all nodes"
    )
    (job / "checkpoints").unlink()
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # the tests may run as root
    (problem,) = check_resume(plan, job)
    assert problem.message == f"checkpoint.directory: {job}/checkpoints cannot be written: {job} may not be written by this user"
    # nothing is saved: nothing is asked
    assert list(check_resume(compile_run(container()).plan, job)) == []
