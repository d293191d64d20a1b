"""What is found out about checkpoints before a job is started."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from zerocfg.compiler import compile_run
from zerocfg.launch.resume import check_resume
from zerocfg.runtime.checkpoint_files import commit

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


def test_a_conversion_that_has_no_room(container: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused before it waits in a queue."""
    saved, plan = (compile_run(container({"parallelism.stage": stage, "checkpoint.every_steps": 5})).plan for stage in (3, 2))
    job = tmp_path / "out/0"
    draft = job / "checkpoints/.saving-global_step5"
    draft.mkdir(parents=True)
    (draft / "zero_pp_rank_0_mp_rank_00_optim_states.pt").write_bytes(bytes(3 * 2**20))
    (draft / "zero_pp_rank_0_mp_rank_00_model_states.pt").write_bytes(bytes(2**20))
    commit(draft, 5, {"plan": asdict(saved)}, keep_last=0)
    free = 2**23
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=free))
    assert [d.code for d in check_resume(plan, job)] == ["ZC772"]
    free = 2**22
    (_, problem) = check_resume(plan, job)
    assert problem.code == "ZC776"
    assert problem.message == (
        f"no room to convert {job}/checkpoints/global_step5: that takes about 6 MiB, 4 MiB are free in {job}/checkpoints"
    )
    # as it is, it needs none
    assert list(check_resume(saved, job)) == []


def test_weights_that_are_not_ours_to_replace(container: Make, tmp_path: Path) -> None:
    """Found before the training, not after it."""
    plan = compile_run(container({"checkpoint.every_steps": 5, "checkpoint.consolidate_on_end": True})).plan
    (tmp_path / "weights").mkdir()
    assert list(check_resume(plan, tmp_path)) == []
    (tmp_path / "weights/model.safetensors").touch()
    assert [d.message for d in check_resume(plan, tmp_path)] == [
        f"{tmp_path}/weights/model.safetensors exists, and another program wrote it"
    ]
