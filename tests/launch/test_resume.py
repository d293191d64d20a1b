"""What is found out about checkpoints before a job is started."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from zerocfg.compiler import compile_run
from zerocfg.launch.resume import check_resume
from zerocfg.runtime.checkpoint_files import commit
from zerocfg.runtime.checkpoint_start import find_start

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


def _damaged(node: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every place of a JSON value with other values for it; None: it is gone."""
    for name, value in node.items():
        here = (*path, name)
        yield from ((here, other) for other in (None, [], {}, "x", -1, True, 1.5, {"a": {"b": 1}}))
        if isinstance(value, dict):
            yield from _damaged(value, here)


def test_no_damage_of_a_manifest_ends_in_a_traceback(container: Make, tmp_path: Path) -> None:
    """Each is told, or is as good as what was there."""
    plan = compile_run(container({"checkpoint.every_steps": 5, "scheduler.type": "WarmupLR"})).plan
    other = replace(plan, zero=replace(plan.zero, stage=3), model=None)
    own = tmp_path / "0/checkpoints"
    for step in (5, 10):
        (own / f".saving-global_step{step}").mkdir(parents=True)
        (own / f".saving-global_step{step}/zerocfg.pt").touch()
        commit(own / f".saving-global_step{step}", step, {"plan": asdict(plan), "recorded": {"starts": [0]}, "world_size": 4}, keep_last=0)
    path = own / "global_step10/zerocfg.json"
    whole = json.loads(path.read_text())
    starts = set()
    for place, value in _damaged(whole):
        manifest = json.loads(json.dumps(whole))
        node = manifest
        for name in place[:-1]:
            node = node[name]
        if value is None:
            del node[place[-1]]
        else:
            node[place[-1]] = value
        path.write_text(json.dumps(manifest))
        for now in (plan, other):
            assert {found.code for found in check_resume(now, tmp_path / "0")} <= {"ZC771", "ZC772", "ZC773", "ZC778"}
        start = find_start(plan.checkpoint, tmp_path / "0", tmp_path).checkpoint
        assert start is not None
        starts.add(start.step)
    assert starts == {5, 10}
