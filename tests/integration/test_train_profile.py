"""train.profile on real engines: two CPU ranks, the time in collectives by DeepSpeed's log and by torch.profiler."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.integration
TRAIN = Path(__file__).parents[2] / "train.py"
TINY = (
    "hardware=cpu",
    "precision=fp32",
    "model.num_hidden_layers=2",
    "model.hidden_size=48",
    "model.sequence_length=64",
    "train.steps=8",
    "train.log_every=3",
)


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def test_the_time_in_collectives(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(TRAIN), *TINY, "train.profile=comms,torch", f"hydra.sweep.dir={tmp_path}/runs"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    comms, traced = tmp_path / "runs/0", tmp_path / "runs/1"
    assert read(comms / "compiled/ds_config.json")["comms_logger"] == {"enabled": True}
    assert "comms_logger" not in read(traced / "compiled/ds_config.json")
    for line in (comms / "metrics.jsonl").read_text().splitlines()[1:]:
        record = json.loads(line)
        parts = [record[f"{part}_seconds"] for part in ("forward", "backward", "optimizer", "data")]
        assert all(0 < part < record["step_seconds"] for part in parts)
        assert sum(parts) < record["step_seconds"]
        # collectives run inside of the engine's calls
        assert 0 < record["communication_seconds"] < sum(parts)
    made = read(traced / "summary.json")
    assert 0 < made["communication_share"] < 1
    assert "communication_seconds" not in made
    assert made["profile_trace"] == "profile/steps_3_to_5.json"
    events = read(traced / made["profile_trace"])["traceEvents"]
    assert [e["name"] for e in events if e.get("name", "").startswith("ProfilerStep")] == [f"ProfilerStep#{n}" for n in (2, 3, 4)]
    assert [path.name for path in (traced / "profile").iterdir()] == ["steps_3_to_5.json"]
