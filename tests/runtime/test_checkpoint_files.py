"""Which checkpoint is whole, which one a run begins with, what goes and what is kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.saved import SAVED_PLAN
from zerocfg.diagnostics import ConfigProblems
from zerocfg.plan import CheckpointPlan
from zerocfg.runtime import checkpoint_files as files
from zerocfg.runtime.checkpoint_files import Checkpoint, commit, read, survey
from zerocfg.runtime.checkpoint_start import find_start, locate, make_way

PLAN: dict[str, Any] = {
    "enabled": True,
    "every_steps": 5,
    "every_minutes": 0.0,
    "keep_last": 2,
    "async_save": False,
    "directory": "checkpoints",
    "resume": "auto",
    "on_error": "stop",
    "consolidate_on_end": False,
    "max_requeues": 0,
}


def plan(**changes: Any) -> CheckpointPlan:
    return CheckpointPlan(**{**PLAN, **changes})


def save(own: Path, step: int, *, keep_last: int = 0, started_from: str = "") -> tuple[Checkpoint, list[str]]:
    draft = own / f"{files.DRAFT}global_step{step}"
    (draft / "deep").mkdir(parents=True)
    (draft / "a.pt").write_bytes(b"a" * step)
    (draft / "deep/b.pt").write_bytes(b"b")
    return commit(draft, step, {"plan": SAVED_PLAN, "started_from": started_from}, keep_last=keep_last)


def changed(path: Path, **values: Any) -> None:
    manifest = json.loads((path / "zerocfg.json").read_text())
    (path / "zerocfg.json").write_text(json.dumps({**manifest, **values}))


def names(own: Path) -> list[str]:
    return sorted(path.name for path in own.iterdir())


def test_commit(tmp_path: Path) -> None:
    made, dropped = save(tmp_path, 5)
    assert (made.path, made.step, dropped) == (tmp_path / "global_step5", 5, [])
    assert (tmp_path / "latest").read_text() == "global_step5"
    content = json.loads((tmp_path / "global_step5/zerocfg.json").read_text())
    assert content == {"format": 1, "step": 5, "plan": SAVED_PLAN, "started_from": "", "files": {"a.pt": 5, "deep/b.pt": 1}}
    assert read(tmp_path / "global_step5") == made
    assert names(tmp_path) == ["global_step5", "latest"]


def test_latest_is_for_others_and_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / "latest/not ours").mkdir(parents=True)
    save(tmp_path, 5)
    assert (tmp_path / "latest").read_text() == "global_step5"


def test_old_ones_go_when_the_new_one_is_whole(tmp_path: Path) -> None:
    for step in (5, 10, 15):
        made, dropped = save(tmp_path, step, keep_last=2)
    assert (made.step, dropped) == (15, ["global_step5"])
    assert names(tmp_path) == ["global_step10", "global_step15", "latest"]
    # one that is not whole is no reason to drop one that is
    (tmp_path / "global_step15/a.pt").unlink()
    save(tmp_path, 20, keep_last=2)
    assert [c.step for c in survey(tmp_path)[0]] == [10, 20]


def test_the_same_step_again_replaces(tmp_path: Path) -> None:
    save(tmp_path, 5)
    (tmp_path / "global_step5/extra").touch()
    save(tmp_path, 5)
    assert not (tmp_path / "global_step5/extra").exists()
    assert names(tmp_path) == ["global_step5", "latest"]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda path: (path / "a.pt").unlink(), "a.pt is missing"),
        (lambda path: (path / "deep/b.pt").write_bytes(b""), "deep/b.pt has 0 bytes of 1"),
        (
            lambda path: (path / "zerocfg.json").unlink(),
            "it has no zerocfg.json: it was not finished, or another program wrote it",
        ),
        (lambda path: (path / "zerocfg.json").write_text('{"format": 1'), "its zerocfg.json cannot be read (JSONDecodeError: "),
        (lambda path: (path / "zerocfg.json").write_bytes(b""), "its zerocfg.json cannot be read (JSONDecodeError: "),
        (lambda path: (path / "zerocfg.json").write_bytes(b"\xff\x00"), "its zerocfg.json cannot be read (UnicodeDecodeError: "),
        (lambda path: (path / "zerocfg.json").write_text("[" * 100_000), "its zerocfg.json cannot be read (RecursionError: "),
        (lambda path: (path / "zerocfg.json").write_text("[]"), "its zerocfg.json is damaged: it has no format"),
        (lambda path: changed(path, step="10"), "its zerocfg.json is damaged: step is no whole number"),
        (lambda path: changed(path, step=5), "its zerocfg.json is of step 5"),
        (lambda path: changed(path, files={}), "its zerocfg.json is damaged: files is empty"),
        (lambda path: changed(path, files={"a.pt": "10"}), "its zerocfg.json is damaged: files.a.pt is no whole number"),
        (lambda path: changed(path, plan={**SAVED_PLAN, "topology": {}}), "its zerocfg.json is damaged: it has no plan.topology.num_nodes"),
        (lambda path: changed(path, recorded={"starts": 3}), "its zerocfg.json is damaged: recorded.starts is no list"),
        (
            lambda path: (path / "zerocfg.json").write_text('{"format": 2, "step": 10, "files": {}, "plan": {}}'),
            "its zerocfg.json has format 2, this zerocfg reads 1",
        ),
    ],
)
def test_what_is_not_whole_is_never_chosen(damage: Any, reason: str, tmp_path: Path) -> None:
    own = tmp_path / "job/checkpoints"
    save(own, 5)
    save(own, 10)
    damage(own / "global_step10")
    whole, damaged = survey(own)
    assert [checkpoint.step for checkpoint in whole] == [5]
    (told,) = damaged
    assert told.startswith(f"{own / 'global_step10'}: {reason}")
    # latest names the damaged one, and counts for DeepSpeed's own tools only
    assert (own / "latest").read_text() == "global_step10"
    start = find_start(plan(), tmp_path / "job", tmp_path)
    assert start.checkpoint is not None
    assert (start.checkpoint.step, start.damaged) == (5, (told,))


def test_auto_begins_at_the_newest_or_at_zero(tmp_path: Path) -> None:
    assert find_start(plan(), tmp_path, tmp_path).checkpoint is None
    for step in (5, 100, 20):
        save(tmp_path / "checkpoints", step)
    start = find_start(plan(), tmp_path, tmp_path)
    assert start.checkpoint is not None
    assert (start.checkpoint.step, start.aside, start.started_from) == (100, (), "")


def test_a_folder_elsewhere(tmp_path: Path) -> None:
    save(tmp_path / "far", 5)
    start = find_start(plan(directory=str(tmp_path / "far")), tmp_path / "job", tmp_path)
    assert start.checkpoint is not None
    assert start.checkpoint.path == tmp_path / "far/global_step5"


def test_never_keeps_what_is_there_under_other_names(tmp_path: Path) -> None:
    own = tmp_path / "checkpoints"
    save(own, 5)
    save(own, 10)
    start = find_start(plan(resume="never"), tmp_path, tmp_path)
    assert start.checkpoint is None
    assert make_way(start, own) == [
        "checkpoint global_step5 of another start is kept as global_step5.1",
        "checkpoint global_step10 of another start is kept as global_step10.1",
    ]
    assert names(own) == ["global_step10.1", "global_step5.1", "latest"]
    # the same run, restarted after its first own checkpoint
    save(own, 3)
    again = find_start(plan(resume="never"), tmp_path, tmp_path, again=True)
    assert again.checkpoint is not None
    assert (again.checkpoint.step, again.aside) == (3, ())


def test_a_path(tmp_path: Path) -> None:
    other = tmp_path / "other job"
    save(other / "checkpoints", 5)
    save(other / "checkpoints", 10)
    for text, step in (("other job", 10), ("other job/checkpoints", 10), (str(other / "checkpoints/global_step5"), 5)):
        assert locate(text, tmp_path).step == step
    (other / "compiled").mkdir()
    (other / "compiled/plan.json").write_text(json.dumps({"checkpoint": {"directory": str(tmp_path / "far")}}))
    save(tmp_path / "far", 30)
    assert locate("other job", tmp_path).step == 30


def test_a_path_without_a_whole_checkpoint(tmp_path: Path) -> None:
    save(tmp_path / "a", 5)
    (tmp_path / "a/global_step5/a.pt").unlink()
    (tmp_path / "empty").mkdir()
    save(tmp_path / "b", 5)
    (tmp_path / "b/global_step6").mkdir()
    for text, *reasons in (
        ("a", f"{tmp_path}/a/global_step5: a.pt is missing"),
        ("a/global_step5", f"{tmp_path}/a/global_step5: a.pt is missing"),
        ("a/global_step7", f"{tmp_path}/a/global_step7: there is no such folder"),
        (
            "b/global_step6",
            f"{tmp_path}/b/global_step6: it has no zerocfg.json: it was not finished, or another program wrote it",
            "whole: global_step5",
        ),
        ("empty", f"{tmp_path}/empty is a folder without checkpoints: a run saves some with checkpoint=steps, minutes or on_stop"),
        ("nowhere", f"{tmp_path}/nowhere is not a folder"),
        ("Never", f"{tmp_path}/Never is not a folder"),
    ):
        with pytest.raises(ConfigProblems) as caught:
            find_start(plan(resume=text), tmp_path / "job", tmp_path)
        told = "\n  ".join(reasons)
        assert str(caught.value) == (
            f"error[ZC770] checkpoint.resume={text}: there is no whole checkpoint\n  {told}\n"
            "  try: a folder global_step<N>, a folder of them, a job's folder; or checkpoint.resume="
            f"{'never' if text == 'Never' else 'auto'}\n\n1 error"
        )


def test_the_folder_of_a_sweep(tmp_path: Path) -> None:
    """What a launch prints to go on with: of one job it is as good as the job's."""
    save(tmp_path / "sweep/0/checkpoints", 5)
    save(tmp_path / "sweep/0/checkpoints", 10)
    (tmp_path / "sweep/1/checkpoints").mkdir(parents=True)
    assert locate("sweep", tmp_path).path == tmp_path / "sweep/0/checkpoints/global_step10"
    save(tmp_path / "sweep/1/checkpoints", 5)
    with pytest.raises(ConfigProblems) as caught:
        locate("sweep", tmp_path)
    assert caught.value.diagnostics[0].detail == (f"2 jobs below it have some: {tmp_path}/sweep/0, {tmp_path}/sweep/1",)


def test_a_path_is_where_a_run_begins_and_its_own_checkpoints_where_it_goes_on(tmp_path: Path) -> None:
    save(tmp_path / "other", 20)
    own = tmp_path / "job/checkpoints"
    save(own, 50)  # of an earlier run in the same folder, begun elsewhere
    wanted = plan(resume="other")
    start = find_start(wanted, tmp_path / "job", tmp_path)
    assert start.checkpoint is not None
    assert (start.checkpoint.step, start.started_from, start.aside) == (20, str(tmp_path / "other"), (own / "global_step50",))
    make_way(start, own)
    save(own, 25, started_from=start.started_from)
    again = find_start(wanted, tmp_path / "job", tmp_path)
    assert again.checkpoint is not None
    assert (again.checkpoint.step, again.aside) == (25, ())
    # requeued later, when what it began with is gone
    (tmp_path / "other").rename(tmp_path / "moved")
    assert find_start(wanted, tmp_path / "job", tmp_path) == again


def test_going_back_to_an_earlier_one_of_its_own(tmp_path: Path) -> None:
    own = tmp_path / "checkpoints"
    for step in (10, 20, 30):
        save(own, step)
    start = find_start(plan(resume="checkpoints/global_step20"), tmp_path, tmp_path)
    assert start.checkpoint is not None
    assert (start.checkpoint.step, start.aside) == (20, (own / "global_step30",))
    make_way(start, own)
    # without the step aside, `auto` would go on with the history that was left
    auto = find_start(plan(), tmp_path, tmp_path)
    assert auto.checkpoint is not None
    assert auto.checkpoint.step == 20


def test_half_written_and_half_dropped_folders_go(tmp_path: Path) -> None:
    save(tmp_path, 5)
    for name in (".saving-global_step10", ".deleting-global_step1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.pt").touch()
    start = find_start(plan(directory=str(tmp_path)), tmp_path, tmp_path)
    assert make_way(start, tmp_path) == ["global_step10 was not finished and is removed"]
    assert names(tmp_path) == ["global_step5", "latest"]
