"""results.csv and the table of a sweep."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from zerocfg.hidden import HIDDEN
from zerocfg.launch.opening import write_table
from zerocfg.launch.paths import JobPaths
from zerocfg.launch.prepare import Infeasible, Prepared
from zerocfg.launch.results import failed, succeeded, write_result
from zerocfg.launch.sweep_results import SweepRow, read_rows, results_table, sweep_row, write_results

SUMMARY = {"last_loss": 2.5, "tokens_per_s": 1234.5, "peak_memory_bytes": 3 * 2**30, "seconds": 7.5, "zero_stage": 3}


def job(folder: Path, value: Any = None, summary: object = None) -> Path:
    paths = JobPaths(folder)
    paths.results.mkdir(parents=True)
    write_result(paths.result(0), succeeded(0, value))
    if summary is not None:
        paths.summary.write_text(summary if isinstance(summary, str) else json.dumps(summary))
    return folder


def test_a_row_of_a_finished_job(tmp_path: Path) -> None:
    row = sweep_row(3, "done", ["a=1", "b='x y'"], job(tmp_path / "3", 0.25, SUMMARY))
    assert row == SweepRow(
        job=3,
        state="done",
        overrides="a=1 b='x y'",
        objective=0.25,
        last_loss=2.5,
        tokens_per_s=1234.5,
        peak_memory_bytes=3 * 2**30,
        seconds=7.5,
        folder=str(tmp_path / "3"),
    )


@pytest.mark.parametrize(
    ("value", "objective"),
    [
        (3, 3),
        (np.float32(0.5), 0.5),
        (None, None),
        ("0.5", None),
        (True, None),
        ([1.0], None),
        ({"loss": 1.0}, None),
        (float("nan"), float("nan")),
    ],
)
def test_objectives(tmp_path: Path, value: object, objective: float | None) -> None:
    found = sweep_row(0, "done", [], job(tmp_path / "0", value)).objective
    assert found == objective or (found != found and objective != objective)


def test_what_is_missing_or_damaged_stays_empty(tmp_path: Path) -> None:
    empty = SweepRow(job=0, state="running", overrides="", folder=str(tmp_path / "none"))
    assert sweep_row(0, "running", [], tmp_path / "none") == empty
    assert sweep_row(0, "done", [], job(tmp_path / "a", None, "{")).last_loss is None
    assert sweep_row(0, "done", [], job(tmp_path / "b", None, "[1]")).last_loss is None
    assert sweep_row(0, "done", [], job(tmp_path / "c", None, {"last_loss": "high", "seconds": None})).last_loss is None
    broken = job(tmp_path / "d", 1.0)
    JobPaths(broken).result(0).write_bytes(b"no pickle")
    assert sweep_row(0, "done", [], broken).objective is None
    failing = job(tmp_path / "e", 1.0)
    write_result(JobPaths(failing).result(0), failed(0, ValueError("x")))
    assert sweep_row(0, "failed", [], failing).objective is None


def test_a_running_job_has_its_last_record(tmp_path: Path) -> None:
    folder = tmp_path / "0"
    folder.mkdir()
    lines = [{"step": s, "loss": 5.0 - s, "tokens_per_s": 100.0 * s, "memory_bytes": 2**20, "seconds": 1.0 * s} for s in (1, 2)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    row = sweep_row(0, "running", [], folder)
    assert (row.last_loss, row.tokens_per_s, row.peak_memory_bytes, row.seconds) == (3.0, 200.0, 2**20, 2.0)
    with (folder / "metrics.jsonl").open("ab") as file:
        file.write(b'{"step": 3, "lo\xff')  # half a line
    assert sweep_row(0, "running", [], folder).last_loss == 3.0
    (folder / "metrics.jsonl").write_text('{"step": 1, "lo')
    assert sweep_row(0, "running", [], folder).last_loss is None


def test_the_file_is_read_by_other_programs_and_by_us(tmp_path: Path) -> None:
    hostile = SweepRow(job=1, state="failed", overrides="text=\"a, b\" c='new\nline'", folder="/s/1")
    fine = sweep_row(0, "done", ["a=1"], job(tmp_path / "0", 1.5, SUMMARY))
    path = write_results(tmp_path, [fine, hostile])
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == [
        "job",
        "state",
        "overrides",
        "objective",
        "last_loss",
        "tokens_per_s",
        "peak_memory_bytes",
        "seconds",
        "folder",
    ]
    assert [row["objective"] for row in rows] == ["1.5", ""]
    assert rows[1]["overrides"] == hostile.overrides
    assert read_rows(tmp_path) == [fine, hostile]
    assert read_rows(tmp_path / "none") == []
    good = path.read_bytes()
    head, *lines = good.splitlines(keepends=True)
    for damaged in (
        b"",
        b"\xff" + good,
        head.replace(b"job", b"number") + lines[0],
        head + lines[0].replace(b"0,", b",", 1),
        head + lines[0].replace(b"0,", b"zero,", 1),
        head + lines[0].rstrip() + b",more\n",
        head + b"0,done\n",
        head + lines[0].rstrip() + b"\0\n",
        b"a" * 200_000 + b"\n",
    ):
        path.write_bytes(damaged)
        assert read_rows(tmp_path) == []


def test_the_table_leaves_out_columns_without_a_value() -> None:
    rows = [
        SweepRow(job=0, state="done", overrides="a=1", objective=0.123456789, tokens_per_s=12345.6, peak_memory_bytes=2**30),
        SweepRow(job=10, state="failed", overrides="a='new\nline'"),
    ]
    assert results_table(rows, [("SLURM", ["12_0", "12_1"]), ("why", ["", ""])]) == "\n".join(
        [
            "job  state   SLURM  objective  tokens/s  peak memory  overrides",
            "0    done    12_0    0.123457    12,346        1 GiB  a=1",
            "10   failed  12_1                                     a='new\\nline'",
        ]
    )


def test_a_point_that_was_left_out_keeps_its_secrets(tmp_path: Path) -> None:
    point = Infeasible(number=3, overrides=("+env.HF_TOKEN=sesame", "parallelism=zero9", "hydra.verbose=true"))
    write_table(tmp_path, Prepared(infeasible=[point]), {}, {}, show=False)
    (row,) = read_rows(tmp_path)
    assert (row.job, row.state, row.overrides) == (3, "infeasible", f"+env.HF_TOKEN={HIDDEN} parallelism=zero9")
