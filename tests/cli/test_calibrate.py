"""zerocfg calibrate where nothing has to be measured: what is refused, and what is left when it ends early."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from zerocfg.calibrate import run
from zerocfg.calibrate.run import CalibrationFailed, calibrate
from zerocfg.cli.calibrate import lines


def test_more_ranks_than_the_machine_has(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zerocfg.cli.calibrate.calibrate", lambda *_: pytest.fail("measured"))
    status, out, err = cli("calibrate", "--gpus", "5000")
    assert (status, out) == (2, "")
    assert err.startswith("--gpus 5000: this machine has ")


def test_a_folder_that_cannot_be_made_is_told_before_the_measurement(cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zerocfg.cli.calibrate.calibrate", lambda *_: pytest.fail("measured"))
    (tmp_path / "cache").write_text("", encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    status, out, err = cli("calibrate", "--gpus", "1")
    assert (status, out) == (1, "")
    assert "cannot be written: " in err


@pytest.mark.parametrize("end", [subprocess.TimeoutExpired("", 0), KeyboardInterrupt()])
def test_torchrun_is_asked_to_end_its_ranks(monkeypatch: pytest.MonkeyPatch, end: BaseException) -> None:
    started: list[subprocess.Popen[str]] = []

    class Started(subprocess.Popen[str]):
        def communicate(self, *_: Any, **__: Any) -> Any:
            started.append(self)
            raise end

    monkeypatch.setattr(run.subprocess, "Popen", Started)
    with pytest.raises((CalibrationFailed, KeyboardInterrupt)):
        calibrate(1, 1)
    (process,) = started
    assert process.returncode is not None
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)


def test_the_columns_of_what_was_measured() -> None:
    found = {"gpu": "H200", "matmul_tflops": {"bf16": 801.25}, "all_reduce": [[2**20, 25.0], [2**30, 3_000.0]]}
    assert lines(found) == [
        "gpu                     H200",
        "matmul_tflops.bf16      801.2",
        "all_reduce        1 MiB        25.0 us    41.943 GB/s",
        "all_reduce        1 GiB     3,000.0 us   357.914 GB/s",
    ]
