"""Where a calibration lies, what is taken of it, what is said of one that cannot be used."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from zerocfg.compiler import examine
from zerocfg.compose import compose
from zerocfg.facts import HardwareFacts
from zerocfg.planner.rates import Curve, rates_of
from zerocfg.probe.calibration import calibration_file, decide, stored_calibration

BASE = ("model=gpt_1b3", "hardware=h200x2")
WHOLE = {"hardware": "H200-SXM-141GB", "gpu": "NVIDIA H200", "matmul_tflops": {"bf16": 300.0}, "all_gather": [[1e6, 20.0], [1e9, 4000.0]]}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "zerocfg").mkdir()
    return tmp_path / "zerocfg"


@pytest.fixture
def hardware() -> HardwareFacts:
    outcome = examine(compose(list(BASE)).container)
    assert outcome.plan is not None
    return outcome.plan.hardware


def test_the_file_is_named_after_gpu_and_count(cache: Path) -> None:
    assert calibration_file("H200-SXM-141GB", 2) == cache / "calibration-h200-sxm-141gb-x2.json"
    assert calibration_file("NVIDIA A100", 8, 4) == cache / "calibration-a100-x8-n4.json"
    assert calibration_file("cpu", 2) == cache / "calibration-cpu-x2.json"


def test_of_another_number_of_gpus_all_but_the_links_is_taken(cache: Path, hardware: HardwareFacts) -> None:
    assert stored_calibration(hardware).found is None
    (cache / "calibration-h200-sxm-141gb-x8.json").write_text(json.dumps(WHOLE), encoding="utf-8")
    found = stored_calibration(hardware).found
    assert found is not None
    assert (found["matmul_tflops"], "all_gather" in found) == ({"bf16": 300.0}, False)
    assert found["source"] == "calibration of the same GPU (calibration-h200-sxm-141gb-x8.json), links of 2 by the data sheet"
    (cache / "calibration-h200-sxm-141gb-x2.json").write_text(json.dumps(WHOLE), encoding="utf-8")
    found = stored_calibration(hardware).found
    assert found is not None
    assert found["all_gather"] == WHOLE["all_gather"]
    assert found["source"] == "calibration of this machine (calibration-h200-sxm-141gb-x2.json)"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("not json", "is not JSON"),
        ("[1]", "holds list, not an object"),
        ("{}", "has no measurement"),
        ('{"gpu": "NVIDIA H200", "ranks": 2}', "has no measurement"),
        (json.dumps({**WHOLE, "hardware": "A100-SXM4-80GB"}), "was measured on A100-SXM4-80GB, and this run is for H200-SXM-141GB"),
        (json.dumps({**WHOLE, "memory_gbps": "fast"}), "has no measurement in memory_gbps"),
        (json.dumps({**WHOLE, "memory_gbps": -1}), "has no measurement in memory_gbps"),
        (json.dumps({**WHOLE, "all_reduce": [[1, 2, 3]], "matmul_tflops": 3}), "has no measurement in matmul_tflops, all_reduce"),
    ],
)
def test_what_cannot_be_used_is_said(cache: Path, hardware: HardwareFacts, content: str, said: str) -> None:
    """ZC513."""
    file = cache / "calibration-h200-sxm-141gb-x2.json"
    file.write_text(content, encoding="utf-8")
    stored = stored_calibration(hardware)
    assert stored.found is None
    (problem,) = stored.problems
    assert (problem.code, problem.severity.name) == ("ZC513", "WARNING")
    assert problem.message.startswith(f"{file} {said}")
    # auto says so too, and goes by the data sheet
    outcome = examine(compose([*BASE, "parallelism=auto"]).container, decide=decide)
    assert outcome.run is not None
    assert "ZC513" in {d.code for d in outcome.diagnostics}
    assert "from the data sheet" in outcome.run.provenance["zero_optimization.stage"].reason


def test_a_folder_in_its_place_is_said(cache: Path, hardware: HardwareFacts) -> None:
    (cache / "calibration-h200-sxm-141gb-x2.json").mkdir()
    stored = stored_calibration(hardware)
    assert stored.found is None
    assert "cannot be read" in stored.problems[0].message


def test_auto_goes_by_the_calibration(cache: Path) -> None:
    (cache / "calibration-h200-sxm-141gb-x2.json").write_text(json.dumps(WHOLE), encoding="utf-8")
    run: Any = examine(compose([*BASE, "parallelism=auto"]).container, decide=decide).run
    assert "from the calibration of this machine" in run.provenance["zero_optimization.stage"].reason


CURVE = {
    "backend": "nccl",
    "gpu": "H200-SXM-141GB",
    "all_reduce": [[1024, 30e-6], [2**30, 0.004]],
    "all_gather": [[1024, 25e-6], [2**30, 0.002]],
    "reduce_scatter": [[2**30, 0.002]],
    "broadcast": [[1024, 25e-6]],
}
"""As zerocfg bench comm writes it; one collective without a small size."""


def test_the_links_are_those_that_bench_comm_measured(cache: Path, hardware: HardwareFacts) -> None:
    file = cache / "comm-h200-sxm-141gb-x2-nccl.json"
    file.write_text(json.dumps(CURVE), encoding="utf-8")
    stored = stored_calibration(hardware)
    assert stored.problems == ()
    assert stored.found == {
        "all_reduce": [[1024.0, 30.0], [float(2**30), 4000.0]],  # two ranks: 2 x 1/2 of the buffer is on the bus
        "all_gather": [[512.0, 25.0], [float(2**29), 2000.0]],
        "source": "data sheet, links by zerocfg bench comm (comm-h200-sxm-141gb-x2-nccl.json)",
    }
    rates = rates_of(hardware, stored.found)
    assert rates.all_gather == Curve(25.0, pytest.approx(2**29 / 1975 / 1e3))
    assert (rates.reduce_scatter, rates.matmul_tflops) == (rates_of(hardware).reduce_scatter, rates_of(hardware).matmul_tflops)


def test_a_calibration_made_since_keeps_its_links(cache: Path, hardware: HardwareFacts) -> None:
    calibration, file = cache / "calibration-h200-sxm-141gb-x2.json", cache / "comm-h200-sxm-141gb-x2-nccl.json"
    calibration.write_text(json.dumps(WHOLE), encoding="utf-8")
    file.write_text(json.dumps(CURVE), encoding="utf-8")
    for older, newer, gathers in ((calibration, file, [[512.0, 25.0], [float(2**29), 2000.0]]), (file, calibration, WHOLE["all_gather"])):
        os.utime(older, (1, 1))
        os.utime(newer, (2, 2))
        found = stored_calibration(hardware).found
        assert found is not None
        assert (found["all_gather"], found["matmul_tflops"]) == (gathers, WHOLE["matmul_tflops"])
        assert ("links by zerocfg bench comm" in found["source"]) == (newer is file)


def test_links_beside_a_calibration_of_another_number(cache: Path, hardware: HardwareFacts) -> None:
    (cache / "calibration-h200-sxm-141gb-x8.json").write_text(json.dumps(WHOLE), encoding="utf-8")
    (cache / "comm-h200-sxm-141gb-x2-nccl.json").write_text(json.dumps(CURVE), encoding="utf-8")
    found = stored_calibration(hardware).found
    assert found is not None
    assert found["source"].startswith("calibration of the same GPU (calibration-h200-sxm-141gb-x8.json), links by zerocfg bench comm (")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is not JSON"),
        ("[1]", "holds list, not an object"),
        (json.dumps({**CURVE, "all_reduce": [[1024]]}), "has no measurement in all_reduce"),
        (json.dumps({**CURVE, "all_gather": 3}), "has no measurement in all_gather"),
        (json.dumps({**CURVE, "all_gather": [[1024, "slow"]]}), "has no measurement in all_gather"),
    ],
)
def test_a_curve_that_cannot_be_used_is_said(cache: Path, hardware: HardwareFacts, content: str, said: str) -> None:
    """ZC513."""
    file = cache / "comm-h200-sxm-141gb-x2-nccl.json"
    file.write_text(content, encoding="utf-8")
    stored = stored_calibration(hardware)
    assert stored.found is None
    assert [d.code for d in stored.problems] == ["ZC513"]
    assert stored.problems[0].message.startswith(f"{file} {said}")
