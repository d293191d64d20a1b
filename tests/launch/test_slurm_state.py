"""States of jobs without accounting: what squeue says, what it has forgotten, what the batch script has left."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from zerocfg.diagnostics import ConfigProblems
from zerocfg.launch.slurm_state import (
    JobState,
    SlurmJob,
    check_active,
    keep_jobs,
    load_jobs,
    parse_squeue,
    query,
    refresh,
    with_end,
    word,
)

SQUEUE = """\
12|N/A|RUNNING|None|node[0-1]
13|0|COMPLETED|None|node0
13|1|FAILED|NonZeroExitCode|node1
13|2|PENDING|JobArrayTaskLimit|
"""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A squeue that says what tools/answer is, with the status of tools/status."""
    folder = tmp_path / "tools"
    folder.mkdir()
    (folder / "squeue").write_text(
        f'#!/bin/sh\necho "$@" >>"{folder}/asked"\ncat "{folder}/answer"\ncat "{folder}/error" >&2\nexit $(cat "{folder}/status")\n'
    )
    (folder / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    answer(folder, SQUEUE)
    return folder


def answer(tools: Path, text: str, status: int = 0, error: str = "") -> None:
    (tools / "answer").write_text(text)
    (tools / "status").write_text(str(status))
    (tools / "error").write_text(error)


def job(folder: Path, slurm_id: str = "13_1", number: int = 1, end: str = "") -> SlurmJob:
    if end:
        (folder / ".zerocfg").mkdir(parents=True, exist_ok=True)
        (folder / ".zerocfg/slurm_end").write_text(f"{end}\n")
    return SlurmJob(number=number, folder=str(folder), slurm_id=slurm_id, overrides=("a=1",), submitted=1.5)


def test_squeue() -> None:
    assert parse_squeue(SQUEUE) == {
        "12": JobState("RUNNING", "", "node[0-1]"),
        "13_0": JobState("COMPLETED", "", "node0"),
        "13_1": JobState("FAILED", "NonZeroExitCode", "node1"),
        "13_2": JobState("PENDING", "JobArrayTaskLimit", ""),
    }


def test_all_jobs_are_asked_for_at_once(tools: Path) -> None:
    assert set(query({"12", "13_0", "13_2", "13_7"}) or ()) == {"12", "13_0", "13_2"}
    asked = (tools / "asked").read_text().splitlines()
    assert len(asked) == 1
    assert asked[0].startswith("--jobs=12,13 --states=all --array --noheader ")
    assert query(set()) == {}


def test_forgotten_is_not_the_same_as_no_answer(tools: Path) -> None:
    answer(tools, "", 1, "slurm_load_jobs error: Invalid job id specified\n")
    assert query({"12"}) == {}
    answer(tools, "", 1, "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n")
    assert query({"12"}) is None


R, C = JobState("RUNNING", "", "n0"), JobState("COMPLETING", "", "n0")


@pytest.mark.parametrize(
    ("end", "said", "before", "expected"),
    [
        ("", R, R, R),
        # what SLURM says last, with the script's status
        ("13_1 3", JobState("FAILED", "NonZeroExitCode", "n0"), R, JobState("FAILED", "NonZeroExitCode", "n0", 3)),
        ("", JobState("CANCELLED", "", "n0"), R, JobState("CANCELLED", "", "n0")),
        # the script has ended, SLURM is still tidying up: one more look, then the script's word counts
        ("13_1 0", C, R, replace(C, exit_status=0)),
        ("13_1 0", C, replace(C, exit_status=0), JobState("COMPLETED", "", "n0", 0)),
        ("13_1 3", C, replace(C, exit_status=3), JobState("FAILED", "NonZeroExitCode", "n0", 3)),
        # forgotten
        ("13_1 0", None, R, JobState("COMPLETED", "", "", 0)),
        ("13_1 3", None, None, JobState("FAILED", "NonZeroExitCode", "", 3)),
        ("", None, JobState("PENDING"), JobState("CANCELLED", "while it was waiting")),
        # a waiting task of an array is forgotten at once when it is cancelled
        ("", None, None, JobState("CANCELLED", "while it was waiting, or no node can write to its folder")),
        ("", None, JobState("SUBMITTED"), JobState("CANCELLED", "while it was waiting, or no node can write to its folder")),
        ("", JobState("CANCELLED", "JobArrayTaskLimit"), None, JobState("CANCELLED", "while it was waiting")),
        ("", None, R, JobState("LOST", "SLURM no longer knows it, and it has left no word")),
        # of an earlier run in the same folder
        ("9_1 0", None, R, JobState("LOST", "SLURM no longer knows it, and it has left no word")),
        ("13_1 ", R, R, R),
    ],
)
def test_the_end(tmp_path: Path, end: str, said: JobState | None, before: JobState | None, expected: JobState) -> None:
    found = with_end(job(tmp_path, end=end), said, before)
    assert found == expected
    assert found.ended is (expected.state in ("FAILED", "COMPLETED", "CANCELLED", "LOST"))


QUEUED, BEGIN = JobState("PENDING", "Resources"), JobState("PENDING", "BeginTime")


@pytest.mark.parametrize(
    ("started", "end", "said", "before", "expected"),
    [
        ("", "", QUEUED, None, QUEUED),
        ("13_1 0", "", R, QUEUED, R),
        # SLURM has ended the script to start it again: SLURM's to say how it goes on
        ("13_1 0", "13_1 143", C, R, replace(C, exit_status=143)),
        ("13_1 0", "13_1 143", C, replace(C, exit_status=143), replace(C, exit_status=143)),
        ("13_1 0", "13_1 143", BEGIN, replace(C, exit_status=143), JobState("REQUEUED", "BeginTime", restarts=1)),
        # running again, and its script has not written that down yet
        ("13_1 0", "", R, JobState("REQUEUED", "BeginTime", restarts=1), replace(R, restarts=1)),
        ("13_1 1", "", R, replace(R, restarts=1), replace(R, restarts=1)),
        ("13_1 1", "13_1 0", JobState("COMPLETED"), R, JobState("COMPLETED", exit_status=0, restarts=1)),
        ("13_1 1", "13_1 143", None, JobState("REQUEUED", restarts=2), JobState("FAILED", "NonZeroExitCode", "", 143, 2)),
        ("13_1 0", "", None, JobState("REQUEUED", restarts=1), JobState("CANCELLED", "while it was waiting", restarts=1)),
        # stopped, saved, and not to be started again
        ("13_1 2", "13_1 85", JobState("FAILED", "NonZeroExitCode"), R, JobState("PREEMPTED", "the bound is reached", "", 85, 2)),
        ("13_1 2", "13_1 85", None, R, JobState("PREEMPTED", "the bound is reached", "", 85, 2)),
        # of an earlier job in the same folder
        ("9_1 3", "", QUEUED, None, QUEUED),
    ],
)
def test_a_job_that_is_started_again(
    tmp_path: Path, started: str, end: str, said: JobState | None, before: JobState | None, expected: JobState
) -> None:
    record = job(tmp_path, end=end)
    (tmp_path / ".zerocfg").mkdir(exist_ok=True)
    (tmp_path / ".zerocfg/slurm_start").write_text(f"{started}\n")
    (tmp_path / ".zerocfg/slurm_note").write_text("the bound is reached\n")
    assert with_end(record, said, before) == expected
    assert expected.ended is (expected.state in ("FAILED", "PREEMPTED", "COMPLETED", "CANCELLED"))


def test_jobs_are_kept_by_number(tmp_path: Path) -> None:
    assert load_jobs(tmp_path) == []
    first, second = job(tmp_path / "1", "13_1", 1), job(tmp_path / "0", "12", 0)
    keep_jobs(tmp_path, [first])
    keep_jobs(tmp_path, [second])
    ended = replace(first, last=JobState("FAILED", "NonZeroExitCode", "n0", 3))
    keep_jobs(tmp_path, [ended])
    assert load_jobs(tmp_path) == [second, ended]
    # a field of a later release is no reason to fail
    path = tmp_path / "slurm/jobs.json"
    content = json.loads(path.read_text())
    content["jobs"][0]["colour"] = "red"
    path.write_text(json.dumps(content))
    assert load_jobs(tmp_path) == [second, ended]
    for damaged in (
        "",
        "{",
        "[]",
        "[" * 100_000,
        '{"jobs": {}}',
        '{"jobs": [{}]}',
        json.dumps({"jobs": [{**content["jobs"][0], "folder": "\0"}]}),
    ):
        path.write_text(damaged)
        with pytest.raises(ConfigProblems, match=r"error\[ZC757\] .*jobs\.json cannot be read"):
            load_jobs(tmp_path)
        assert [problem.code for problem in check_active([], tmp_path)] == ["ZC757"]


def test_ended_jobs_are_not_asked_for_again(tmp_path: Path, tools: Path) -> None:
    done = replace(job(tmp_path, "11", 0), last=JobState("TIMEOUT"))
    states, answered = refresh([done, job(tmp_path, "13_1", 1)])
    assert (states["11"], states["13_1"].state, answered) == (JobState("TIMEOUT"), "FAILED", True)
    assert "--jobs=13 " in (tools / "asked").read_text()
    answer(tools, "", 1, "Unable to contact slurm controller")
    states, answered = refresh([done, job(tmp_path / "a", "13_1", 1), job(tmp_path / "b", "13_2", 2, end="13_2 0")])
    assert answered is False
    assert [states[name].state for name in ("11", "13_1", "13_2")] == ["TIMEOUT", "UNKNOWN", "COMPLETED"]


def test_a_folder_in_which_slurm_runs_a_job_is_taken(tmp_path: Path, tools: Path) -> None:
    running, failed = job(tmp_path / "0", "12", 0), job(tmp_path / "1", "13_1", 1)
    keep_jobs(tmp_path, [running, failed])
    (problem,) = check_active([tmp_path / "0", tmp_path / "1"], tmp_path)
    assert (problem.code, problem.message) == ("ZC706", f"SLURM job 12 is using {tmp_path}/0")
    assert list(check_active([tmp_path / "1", tmp_path / "2"], tmp_path)) == []
    # nobody knows: better not
    answer(tools, "", 1, "Unable to contact slurm controller")
    assert [d.code for d in check_active([tmp_path / "0"], tmp_path)] == ["ZC706"]


def test_words() -> None:
    assert [word(state) for state in ("COMPLETED", "FAILED", "NODE_FAIL", "PENDING")] == ["done", "failed", "node_fail", "pending"]
