"""zerocfg jobs, of jobs whose ends are known: what needs SLURM itself is tested on the test cluster."""

from __future__ import annotations

import csv
import json
import os
import pickle
from pathlib import Path
from typing import Any

import filelock
import pytest

from zerocfg.errors import Preempted
from zerocfg.launch.paths import JobPaths
from zerocfg.launch.results import failed, succeeded, write_result
from zerocfg.launch.slurm_state import JobState, SlurmJob, keep_jobs
from zerocfg.launch.sweep_results import SweepRow, write_results


@pytest.fixture
def sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", "/nowhere")
    folder = tmp_path / "outputs/2026-01-01/12-00-00"
    ends = [
        JobState("COMPLETED", "", "node0", 0),
        JobState("FAILED", "NonZeroExitCode", "node1", 1),
        JobState("TIMEOUT", "TimeLimit", "node1"),
    ]
    for number, end in enumerate(ends):
        paths = JobPaths(folder / str(number))
        paths.results.mkdir(parents=True)
        keep_jobs(
            folder,
            [SlurmJob(number=number, folder=str(paths.root), slurm_id=f"12_{number}", overrides=(f"a={number}",), last=end, world_size=2)],
        )
    for log in (folder / "1/rank_1.log", folder / "slurm/12_2.log"):
        log.touch()
    write_result(JobPaths(folder / "0").result(0), succeeded(0, 0.5))
    write_result(JobPaths(folder / "1").result(1), failed(1, ValueError("boom")))
    return folder


def expected_table(folder: Path) -> str:
    return "\n".join(
        [
            "job  state    SLURM  where or why  objective  overrides",
            "0    done     12_0   node0               0.5  a=0",
            "1    failed   12_1   node1                    a=1",
            "2    timeout  12_2   node1                    a=2",
            "job 1: failed: rank 1 of 2: ValueError: boom",
            f"  log: {folder}/1/rank_1.log",
            "job 2: timeout: TimeLimit",
            f"  log: {folder}/slurm/12_2.log",
            "",
        ]
    )


def test_states_and_results(cli: Any, sweep: Path) -> None:
    status, out, err = cli("jobs", str(sweep))
    assert (status, out, err) == (1, expected_table(sweep), f"{sweep}/results.csv\n")
    with (sweep / "results.csv").open(newline="") as file:
        assert [(row["state"], row["objective"]) for row in csv.DictReader(file)] == [("done", "0.5"), ("failed", ""), ("timeout", "")]


def test_a_job_that_was_started_again(cli: Any, sweep: Path) -> None:
    why = "SIGUSR2; not put back into the queue: checkpoint.max_requeues=2 is reached, it was started 3 times"
    end = JobState("PREEMPTED", why, "node1", 85, restarts=2)
    write_result(JobPaths(sweep / "2").result(0), failed(0, Preempted(7, "SIGUSR2", "/there")))
    keep_jobs(sweep, [SlurmJob(number=2, folder=str(sweep / "2"), slurm_id="12_2", last=end, world_size=2)])
    status, out, _ = cli("jobs", str(sweep))
    lines = out.splitlines()
    assert (status, lines[0].split()[5:7], lines[3].split()) == (1, ["why", "restarts"], ["2", "preempted", "12_2", "node1", "2"])
    assert lines[-2:] == [f"job 2: preempted: {why}, exit status 85", f"  log: {sweep}/slurm/12_2.log"]
    entries = json.loads(cli("jobs", str(sweep), "--json")[1])
    assert [entry["restarts"] for entry in entries] == [0, 0, 2]


def test_a_job_that_was_cancelled(cli: Any, sweep: Path) -> None:
    """One that waited has no log."""
    for number, end in ((1, JobState("CANCELLED", "", "node1", 143)), (2, JobState("CANCELLED", "while it was waiting"))):
        JobPaths(sweep / str(number)).result(1).unlink(missing_ok=True)
        keep_jobs(sweep, [SlurmJob(number=number, folder=str(sweep / str(number)), slurm_id=f"13_{number}", last=end, world_size=2)])
    (sweep / "slurm/13_1.log").touch()
    status, out, _ = cli("jobs", str(sweep))
    assert (status, out.splitlines()[-3:]) == (
        1,
        [
            "job 1: cancelled in SLURM (scancel): exit status 143",
            f"  log: {sweep}/slurm/13_1.log",
            "job 2: cancelled in SLURM (scancel): while it was waiting",
        ],
    )


def test_the_newest_sweep_is_meant_without_a_folder(cli: Any, sweep: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    older = sweep.parent / "11-00-00"
    keep_jobs(older, [SlurmJob(number=0, folder="/x", slurm_id="9", last=JobState("COMPLETED"))])
    os.utime(older / "slurm/jobs.json", (1, 1))
    assert cli("jobs")[1] == expected_table(sweep)
    monkeypatch.chdir(older)
    status, out, _ = cli("jobs")
    assert (status, out.splitlines()[1].split()) == (0, ["0", "done", "9"])


@pytest.mark.parametrize("under_slurm", [False, True])
def test_the_newest_sweep_may_have_a_name_of_its_own(cli: Any, tmp_path: Path, under_slurm: bool) -> None:
    """hydra.sweep.dir=outputs/NAME."""
    named = tmp_path / "outputs/lr"
    result = JobPaths(named / "0").result(0)
    result.parent.mkdir(parents=True)
    write_result(result, succeeded(0, 0.5))
    (named / "multirun.yaml").touch()
    if under_slurm:
        keep_jobs(named, [SlurmJob(number=0, folder=str(named / "0"), slurm_id="7", last=JobState("COMPLETED"))])
    status, out, err = cli("jobs")
    assert (status, err) == (0, f"{named}/results.csv\n" if under_slurm else f"{named}\n")
    assert out.splitlines()[1].split()[:2] == ["0", "done"]


def test_json(cli: Any, sweep: Path) -> None:
    status, out, _ = cli("jobs", str(sweep), "--json")
    entries = json.loads(out)
    assert status == 1
    assert [(e["job"], e["state"], e["slurm_id"], e["reason"], e["nodes"]) for e in entries] == [
        (0, "done", "12_0", "", "node0"),
        (1, "failed", "12_1", "NonZeroExitCode", "node1"),
        (2, "timeout", "12_2", "TimeLimit", "node1"),
    ]


def test_an_open_job_without_a_controller(cli: Any, sweep: Path) -> None:
    keep_jobs(sweep, [SlurmJob(number=3, folder=str(sweep / "3"), slurm_id="12_3")])
    _, out, err = cli("jobs", str(sweep))
    assert "3    unknown  12_3   the controller does not answer" in out
    assert err.startswith("SLURM's controller does not answer: states of open jobs are not known\n")


@pytest.fixture
def local(tmp_path: Path) -> Path:
    """Of four jobs one is done, one has failed, one runs, and one left no word; the first two are in results.csv."""
    folder = tmp_path / "outputs/2026-01-02/12-00-00"
    for number in range(4):
        paths = JobPaths(folder / str(number))
        paths.results.mkdir(parents=True)
        paths.rank_log(0).touch()
        (paths.root / ".hydra").mkdir()
        (paths.root / ".hydra/overrides.yaml").write_text(f"- a={number}\n")
    write_result(JobPaths(folder / "0").result(0), succeeded(0, 0.5))
    write_result(JobPaths(folder / "1").result(0), failed(0, ValueError("boom")))
    write_results(
        folder, [SweepRow(job=n, state=s, overrides=f"a={n}", folder=str(folder / str(n))) for n, s in enumerate(("done", "failed"))]
    )
    return folder


def test_a_sweep_on_this_machine(cli: Any, local: Path) -> None:
    with filelock.FileLock(JobPaths(local / "2").lock):
        status, out, err = cli("jobs", str(local))
        assert (status, err) == (1, f"{local}\n")
        assert out.splitlines() == [
            "job  state    overrides",
            "0    done     a=0",
            "1    failed   a=1",
            "2    running  a=2",
            "3    unknown  a=3",
            "job 1: failed: rank 0 of 1: ValueError: boom",
            f"  log: {local}/1/rank_0.log",
            "job 3: unknown: it has left no word of its end",
        ]
    (local / "results.csv").unlink()
    write_result(JobPaths(local / "2").result(0), failed(0, Preempted(7, "SIGUSR2", "/there")))
    (local / "3/rank_0.log").unlink()
    status, out, _ = cli("jobs", str(local), "--json")
    told = [(entry["job"], entry["state"], entry["objective"], entry["slurm_id"]) for entry in json.loads(out)]
    assert (status, told) == (1, [(0, "done", 0.5, ""), (1, "failed", None, ""), (2, "stopped", None, ""), (3, "not started", None, "")])
    # a run of its own, and without a folder the newest sweep
    assert cli("jobs", str(local / "0"))[:2] == (0, "job  state  objective  overrides\n0    done         0.5  a=0\n")
    assert cli("jobs")[2] == f"{local}\n"


@pytest.mark.parametrize("content", [b"", b"no pickle", b"\x80\x05\x95", pickle.dumps({"rank": 0})])
def test_a_result_that_cannot_be_read(cli: Any, local: Path, content: bytes) -> None:
    """It counts as a failure of its rank, so that hydra.launcher.retry_failed runs the job again."""
    path = JobPaths(local / "3").result(0)
    path.write_bytes(content)
    status, out, _ = cli("jobs", str(local))
    assert status == 1
    assert "3    failed   a=3" in out
    assert f"job 3: failed: rank 0 of 1: how it ended is not known: {path} cannot be read: " in out


def test_an_objective_that_json_has_not(cli: Any, local: Path) -> None:
    write_results(local, [SweepRow(job=0, state="done", overrides="a=0", objective=float("nan"), folder=str(local / "0"))])
    assert json.loads(cli("jobs", str(local), "--json")[1])[0]["objective"] is None


def test_runs_of_several_ranks(cli: Any, tmp_path: Path) -> None:
    """A single run has no results.csv: it is done once each rank of its plan has said so. `zerocfg launch` has no folder below its own."""
    alone, launched = (JobPaths(tmp_path / "outputs/2026-01-02" / name) for name in ("12-00-00/0", "13-00-00"))
    for age, paths in enumerate((alone, launched)):
        assert cli("compile", "hardware=cpu", "--out", str(paths.root))[0] == 0
        paths.results.mkdir(parents=True)
        write_result(paths.result(0), succeeded(0, None))
        os.utime(paths.inner, (age, age))
    assert cli("jobs")[1].splitlines()[1:] == ["0    unknown", "job 0: unknown: it has left no word of its end"]
    for paths in (alone, launched):
        write_result(paths.result(1), succeeded(1, None))
        status, out, err = cli("jobs") if paths is launched else cli("jobs", str(alone.root.parent))
        told = paths.root if paths is launched else paths.root.parent
        assert (status, out, err) == (0, "job  state\n0    done\n", f"{told}\n")


def test_without_a_folder_a_sweep_under_slurm_comes_first(cli: Any, local: Path, sweep: Path) -> None:
    assert cli("jobs")[1] == expected_table(sweep)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "neither this folder nor outputs/ or multirun/ below it holds a sweep"),
        (("none",), "none: there is no such folder"),
        (("file",), "file is no folder"),
        ((".",), ". holds no job of a sweep"),
    ],
)
def test_no_sweep_there(cli: Any, words: tuple[str, ...], message: str) -> None:
    Path("file").touch()
    status, out, err = cli("jobs", *words)
    assert (status, out) == (1, "")
    assert err.startswith(f"error[ZC733] {message}\n")
    assert json.loads(cli("jobs", *words, "--json")[1])[0]["code"] == "ZC733"


def test_a_damaged_list_is_named(cli: Any, sweep: Path) -> None:
    (sweep / "slurm/jobs.json").write_text("{")
    status, out, err = cli("jobs", str(sweep))
    assert (status, out) == (1, "")
    assert err.startswith(f"error[ZC757] {sweep}/slurm/jobs.json cannot be read")
    assert json.loads(cli("jobs", str(sweep), "--json")[1])[0]["code"] == "ZC757"
