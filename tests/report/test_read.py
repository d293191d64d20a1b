"""Folders that are whole, half-written, damaged, moved, or no run at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.saved import SAVED_PLAN
from zerocfg.hidden import HIDDEN
from zerocfg.launch.folders import claimed
from zerocfg.launch.sweep_results import SweepRow, write_results
from zerocfg.report.data import Log, RunData, SweepData
from zerocfg.report.read import clean, read_folder, read_run
from zerocfg.report.run_page import run_page
from zerocfg.report.sweep_page import sweep_page

MakeRun = Callable[..., Path]


def run_in(folder: Path) -> RunData:
    found = read_folder(folder)
    assert isinstance(found, RunData)
    assert run_page(found).endswith("</html>\n")
    return found


def sweep_in(folder: Path) -> SweepData:
    found = read_folder(folder)
    assert isinstance(found, SweepData)
    assert sweep_page(found).endswith("</html>\n")
    return found


def test_a_whole_run(make_run: MakeRun, tmp_path: Path) -> None:
    found = run_in(make_run(tmp_path / "job"))
    assert (found.state, found.notes, found.overrides, found.world_size) == ("done", (), ("parallelism=zero3",), 8)
    assert found.series("loss") == [(1.0, 3.9), (2.0, 3.8), (3.0, 3.7), (4.0, 3.6)]
    assert [step for step, _ in found.series("tokens_per_s")] == [2.0, 3.0, 4.0]
    assert found.number("tokens_per_s") == 1000.0
    assert found.prediction is not None
    assert found.prediction.memory_bytes == 80 * 2**30
    assert found.logs == ()


def test_a_run_that_is_under_way(make_run: MakeRun, tmp_path: Path) -> None:
    folder = make_run(tmp_path / "job", finished=None)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 5, "loss": NaN, "tokens_per_s": 7.5}\n{"step": 6, "lo')
    found = run_in(folder)
    assert found.state == "unknown"
    with claimed(folder):
        running = run_in(folder)
    assert (running.state, running.logs) == ("running", ())
    assert running.notes[1] == "summary.json is not there: the run has not ended; numbers are those of the last logged step"
    assert found.notes == (
        "metrics.jsonl: 1 of 6 lines cannot be read and is left out",
        "summary.json is not there: the run has not ended, or it was killed; numbers are those of the last logged step",
    )
    assert (found.number("steps"), found.number("tokens_per_s"), found.number("last_loss")) == (5.0, 7.5, None)
    assert found.series("loss")[-1] == (4.0, 3.6)


def test_a_dry_run(make_run: MakeRun, tmp_path: Path) -> None:
    folder = make_run(tmp_path / "job", finished=None)
    (folder / "metrics.jsonl").unlink()
    assert run_in(folder).state == "not started"


@pytest.mark.parametrize(
    ("name", "content", "note"),
    [
        ("compiled/plan.json", None, "compiled/plan.json is not there"),
        ("compiled/plan.json", '{"hardware": ', "compiled/plan.json cannot be read: Expecting value: line 1 column 14 (char 13)"),
        ("compiled/plan.json", "[1]", "compiled/plan.json holds no mapping"),
        (
            "compiled/plan.json",
            '{"hardware": {}, "checkpoint": 7}',
            "no prediction of memory: compiled/plan.json is of another version or damaged (KeyError)",
        ),
        ("compiled/ds_config.json", "", "compiled/ds_config.json cannot be read: Expecting value: line 1 column 1 (char 0)"),
        ("metrics.jsonl", None, "metrics.jsonl is not there: nothing was logged"),
        ("metrics.jsonl", '7\n{"step": "x"}\n[[[\n{"step": 1e999}\n', "metrics.jsonl: 4 of 4 lines cannot be read and are left out"),
        ("summary.json", "\x00", "summary.json cannot be read: Expecting value: line 1 column 1 (char 0)"),
    ],
)
def test_what_is_missing_or_damaged_is_told(make_run: MakeRun, tmp_path: Path, name: str, content: str | None, note: str) -> None:
    folder = make_run(tmp_path / "job")
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_text(content)
    if name == "summary.json":
        (folder / "metrics.jsonl").unlink()
    assert note in run_in(folder).notes


def test_numbers_that_are_none(make_run: MakeRun, tmp_path: Path) -> None:
    """Any type may stand anywhere."""
    strange: list[Any] = ["text", None, True, [], {}, 10**400, float("nan"), -1]
    folder = make_run(tmp_path / "job")
    summary = json.loads((folder / "summary.json").read_text())
    for value in strange:
        (folder / "summary.json").write_text(json.dumps({**dict.fromkeys(summary, value), "peak_memory_bytes_by_rank": [value]}))
        lines = [{"step": step, "loss": value, "tokens_per_s": value, "time": value, "lr": value} for step in (1, 2)]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        run_in(folder)


def test_logs_say_why(make_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "hf_sesame")
    folder = make_run(tmp_path / "job", finished=False)
    assert (run_in(folder).state, run_in(folder).logs) == ("stopped", ())
    (folder / "rank_0.log").write_text("all is well\n")
    found = run_in(folder)
    assert (found.state, found.logs) == ("stopped", (Log(name="rank_0.log", lines=("all is well",)),))
    trace = ["Traceback (most recent call last):", *(f"  frame {i}" for i in range(40)), "KeyError: 'hf_sesame'"]
    (folder / "rank_10.log").write_text("\n".join(["before"] * 50 + trace))
    (folder / "rank_2.log").write_text("error[ZC201] no\n  API_KEY=12345 and KEY_OF: x\n\x1b[31mred\x1b[0m\n")
    found = run_in(folder)
    assert found.state == "failed"
    lines = ("error[ZC201] no", f"  API_KEY={HIDDEN} and KEY_OF: {HIDDEN}", "red")
    assert found.logs == (Log(name="rank_2.log", lines=lines),)
    (folder / "rank_2.log").unlink()
    assert run_in(folder).logs == (Log(name="rank_10.log", lines=(*trace[:-1], f"KeyError: '{HIDDEN}'")),)


def test_a_failure_without_a_traceback(make_run: MakeRun, tmp_path: Path) -> None:
    """The user's own mistake has none, nor has a rank that was killed; torchrun knows which rank was the first."""
    folder = make_run(tmp_path / "job", finished=None)
    (folder / ".zerocfg").mkdir()
    for rank in range(2):
        (folder / f"rank_{rank}.log").write_text(f"rank {rank} says no\n")
    report = (
        "Failures:\n[1]:\n  rank      : 0 (local_rank: 0)\nRoot Cause (first observed failure):\n[0]:\n  rank      : 1 (local_rank: 1)\n"
    )
    (folder / ".zerocfg" / "torchrun.log").write_text(f"Traceback (most recent call last):\n  torchrun's\n{report}")
    found = run_in(folder)
    assert (found.state, [log.name for log in found.logs]) == ("failed", ["rank_1.log", ".zerocfg/torchrun.log"])
    assert [log.lines[0] for log in found.logs] == ["rank 1 says no", "Failures:"]
    (folder / "rank_1.log").unlink()
    assert [log.name for log in run_in(folder).logs] == [".zerocfg/torchrun.log"]
    (folder / ".zerocfg" / "preflight").mkdir()
    (folder / ".zerocfg" / "preflight" / "report.txt").write_text("error[ZC880] a node is not fit\n")
    assert [log.lines for log in run_in(folder).logs] == [("error[ZC880] a node is not fit",)]


def test_secrets_are_not_shown(make_run: MakeRun, tmp_path: Path) -> None:
    folder = make_run(tmp_path / "job", overrides=["+env.HF_TOKEN=sesame", "env={MY_KEY: sesame, A: b}"], changes={"env": {"A": "b"}})
    ds_config = folder / "compiled" / "ds_config.json"
    ds_config.write_text(json.dumps({**json.loads(ds_config.read_text()), "monitor": [{"api_key": "sesame"}]}))
    (folder / "compiled" / "environment.json").write_text(json.dumps({"WANDB_API_KEY": "sesame", "A": "b"}))
    page = run_page(run_in(folder))
    assert "sesame" not in page
    assert page.count(HIDDEN) >= 4


def test_words_of_a_log() -> None:
    environ = {"AWS_SECRET_ACCESS_KEY": "swordfish", "TOKENIZERS_PARALLELISM": "false", "SHORT_KEY": "ab"}
    lines = ["swordfish false ab", "TOKENIZERS_PARALLELISM=false", "x" * 1000]
    assert clean(lines, environ) == [f"{HIDDEN} false ab", "TOKENIZERS_PARALLELISM=false", "x" * 400]


def test_a_sweep_that_runs(make_run: MakeRun, tmp_path: Path) -> None:
    """No results.csv yet: folders are found, in the order of their numbers, one level down as well."""
    for name in ("10", "9", "lr=1/a"):
        make_run(tmp_path / name, finished=None if name == "10" else True)
    (tmp_path / "empty").mkdir()
    found = sweep_in(tmp_path)
    assert [(job.label, job.state) for job in found.jobs] == [("9", "done"), ("10", "unknown"), ("lr=1/a", "done")]


def test_a_relative_folder_is_the_same_folder(make_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [SweepRow(job=n, state="done", overrides="", folder=str(make_run(tmp_path / "s" / str(n)))) for n in range(2)]
    write_results(tmp_path / "s", rows)
    monkeypatch.chdir(tmp_path)
    assert len(sweep_in(Path("s")).jobs) == 2


def test_a_sweep_that_was_moved(make_run: MakeRun, tmp_path: Path) -> None:
    for number in range(2):
        make_run(tmp_path / str(number))
    rows = [
        SweepRow(job=n, state="done", overrides=f"+env.A_KEY=k{n} env={{B_KEY: k{n}}}", objective=float(n), folder=f"/gone/sweep/{n}")
        for n in range(3)
    ]
    write_results(tmp_path, rows)
    found = sweep_in(tmp_path)
    assert [(job.label, job.objective, job.run is not None) for job in found.jobs] == [
        ("0", 0.0, True),
        ("1", 1.0, True),
        ("2", 2.0, False),
    ]
    assert "job 2: its folder is not there" in sweep_page(found)
    assert " ".join(found.jobs[2].overrides) == f"+env.A_KEY={HIDDEN} env={{B_KEY: {HIDDEN}}}"


def test_lists_that_cannot_be_read(make_run: MakeRun, tmp_path: Path) -> None:
    for number in range(2):
        make_run(tmp_path / str(number))
    (tmp_path / "results.csv").write_text("job,nonsense\nx,y\n")
    (tmp_path / "slurm").mkdir()
    (tmp_path / "slurm" / "jobs.json").write_text("{")
    found = sweep_in(tmp_path)
    assert len(found.jobs) == 2
    assert found.notes[0] == "results.csv cannot be read: states are told from the folders"
    assert "jobs.json" in found.notes[1]


def test_a_sweep_of_one_is_that_run(make_run: MakeRun, tmp_path: Path) -> None:
    make_run(tmp_path / "sweep" / "0")
    assert run_in(tmp_path / "sweep").name == "sweep/0"


def test_checkpoints(make_run: MakeRun, tmp_path: Path) -> None:
    folder = make_run(tmp_path / "job", changes={"checkpoint": {"enabled": True, "directory": "kept"}}, summary={"resumed_at": [2]})
    whole = folder / "kept" / "global_step2"
    whole.mkdir(parents=True)
    (whole / "weights").write_bytes(b"12345")
    (whole / "zerocfg.json").write_text(json.dumps({"format": 1, "step": 2, "files": {"weights": 5}, "plan": SAVED_PLAN}))
    (folder / "kept" / "global_step3").mkdir()
    found = run_in(folder)
    assert [(c.step, c.path, c.size_bytes) for c in found.checkpoints] == [(2, "global_step2", 5)]
    assert len(found.damaged) == 1
    page = run_page(found)
    assert "resumed after step 2" in page
    assert "not whole" in page


def test_a_cpu_run_has_no_prediction(make_run: MakeRun, tmp_path: Path) -> None:
    changes = {"hardware.accelerator": "cpu", "hardware.gpus_per_node": 2, "hardware.gpu": None, "precision.dtype": "fp32"}
    found = read_run(make_run(tmp_path / "job", changes=changes))
    assert (found.prediction, found.notes) == (None, ())
    assert "resident set at its highest" in run_page(found)
