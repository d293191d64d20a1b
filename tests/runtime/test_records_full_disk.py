"""Records that cannot be written: told, and no reason to lose the run. One rank."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.runtime.one_weight import Engine, MakeRun, lines, train
from zerocfg.runtime import trackers
from zerocfg.runtime.record_files import Lines

NO_SPACE = OSError(28, "No space left on device")


def full(*_: object) -> None:
    raise NO_SPACE


def test_a_run_goes_on_without_them(cpu_run: MakeRun, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    tracker: Any = SimpleNamespace(scalars=full, facts=dict, close=full)
    monkeypatch.setattr(trackers, "tensorboard", lambda *_: tracker)
    run = cpu_run({"train.steps": 5, "train.log_every": 1})
    room = run.output_dir / "metrics.jsonl", run.output_dir / "aside"

    def disk(step: int) -> None:
        """No room for the records of steps 2 and 3."""
        if step == 2:
            room[0].rename(room[1])
            room[0].mkdir()
        if step == 4:
            room[0].rmdir()
            room[1].rename(room[0])
            (run.output_dir / "summary.json").mkdir()

    assert train(run, Engine(), disk) == [1, 2, 3, 4, 5]
    assert [step for step, _ in lines(run)] == [1, 4, 5]
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert told == [
        "train.trackers: tensorboard cannot write any more: No space left on device; the run goes on",
        f"{room[0]} cannot be written: Is a directory; the run goes on",
        f"{run.output_dir}/summary.json cannot be written: Is a directory",
    ]


def test_half_a_line_spoils_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "metrics.jsonl"
    made = Lines(path)
    made.append('{"step": 1}')
    with monkeypatch.context() as broken:
        broken.setattr(Path, "open", full)
        made.append('{"step": 2}')
    with path.open("a") as file:
        file.write('{"st')
    made.append('{"step": 3}')
    made.append('{"step": 4}')
    first, half, *rest = path.read_text().splitlines()
    assert (half, [json.loads(line)["step"] for line in (first, *rest)]) == ('{"st', [1, 3, 4])
