"""Two ranks that die in every way and at the worst moment: the next start goes on from a whole checkpoint, no step counts twice."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from zerocfg.runtime.checkpoint_files import survey

pytestmark = pytest.mark.integration
CONFIG = """
defaults: [zerocfg, override model: none, _self_]
faults: []
hydra: {sweep: {dir: out}, launcher: {poll_seconds: 0.05}}
hardware: {name: cpu, detect: true, accelerator: cpu, gpus_per_node: 2}
precision: {dtype: fp32}
parallelism: {stage: 2}
batch: {global_batch_size: 8}
optimizer: {lr: 0.01}
train: {steps: 40, log_every: 1}
checkpoint: {every_steps: 5, keep_last: 2}
"""
FAULTS = ["rank 1 at 12", "exception at 13", "rank 1 in its file", "rank 0 before latest", "rank 0 while dropping", "agent at 37"]


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("some where")
    shutil.copy(Path(__file__).with_name("survival_app.py"), home / "app.py")
    (home / "config.yaml").write_text(CONFIG)
    return home


def run(app: Path, *overrides: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "app.py", *overrides]
    return subprocess.run(command, cwd=app, capture_output=True, text=True, timeout=300, check=False)


def records(job: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (job / "metrics.jsonl").read_text().splitlines()]


def losses(job: Path) -> list[tuple[int, float]]:
    return [(record["step"], record["loss"]) for record in records(job)]


@pytest.fixture(scope="module")
def straight(app: Path) -> list[tuple[int, float]]:
    """Without an interruption, and without checkpoints."""
    done = run(app, "hydra.sweep.dir=straight", "checkpoint.every_steps=null")
    assert done.returncode == 0, done.stderr + done.stdout
    assert not (app / "straight/0/checkpoints").exists()
    made = losses(app / "straight/0")
    assert [step for step, _ in made] == list(range(1, 41))
    return made


def test_every_death(app: Path, straight: list[tuple[int, float]]) -> None:
    first = run(app, f"faults={FAULTS}", "torchrun.max_restarts=8")
    job = app / "out/0"
    # the agent is gone, and with it what restarts: its ranks save if they still can, and the launcher tells
    assert first.returncode in (1, 85), first.stdout + first.stderr
    said = "".join(path.read_text() for path in job.glob("rank_0*.log"))
    starts = [int(step) for step in re.findall(r"resumed from step (\d+)", said)]
    assert starts == [10, 10, 15, 25, 30]
    assert "global_step20 was not finished and is removed" in said
    assert "rank 1 is unwell" in "".join(path.read_text() for path in job.glob("rank_1*.log"))
    whole, damaged = survey(job / "checkpoints")
    assert damaged == []
    assert whole[-1].step >= 35

    second = run(app)
    assert second.returncode == 0, second.stderr + second.stdout
    assert losses(job) == straight
    summary = json.loads((job / "summary.json").read_text())
    assert (summary["steps"], summary["finished"], summary["first_loss"], summary["last_loss"]) == (
        40,
        True,
        straight[0][1],
        straight[-1][1],
    )
    # the start that died before it saved anything left no step behind
    assert summary["resumed_at"] == [10, 15, 25, 30, whole[-1].step]
    whole, damaged = survey(job / "checkpoints")
    assert ([checkpoint.step for checkpoint in whole][-1], damaged) == (40, [])
    assert (job / "checkpoints/latest").read_text() == "global_step40"


@pytest.mark.parametrize(("number", "status", "named"), [(signal.SIGINT, 130, "Ctrl-C"), (signal.SIGTERM, 85, "SIGTERM")])
def test_stopping_the_launcher(app: Path, straight: list[tuple[int, float]], number: int, status: int, named: str) -> None:
    folder = f"stopped_{named}"
    command = [sys.executable, "app.py", f"hydra.sweep.dir={folder}", "train.log_every=1"]
    running = subprocess.Popen(
        command, cwd=app, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, env={**os.environ}
    )
    metrics = app / folder / "0/metrics.jsonl"
    deadline = time.monotonic() + 120
    while not metrics.exists() or len(metrics.read_text().splitlines()) < 3:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.killpg(running.pid, number)
    out, err = running.communicate(timeout=120)
    assert running.returncode == status, out + err
    assert "Traceback" not in out + err
    found = re.search(
        r"job 0 was stopped \((\S+)\) after step (\d+) of 40\n  checkpoint: (\S.*)\n  go on: the same command with (\S+)", out
    )
    assert found is not None, out
    assert (found[1], found[4]) == (named, f"hydra.sweep.dir={folder}")
    assert Path(found[3]).name == f"global_step{found[2]}"
    assert 3 <= int(found[2]) < 40
    # the ranks were sent SIGUSR2, which is the launcher's business alone
    log = (app / folder / "0/rank_0.log").read_text()
    assert f"{named}: stopped after step {found[2]}, saved as {found[3]}\n" in log
    assert "SIGUSR2" not in log

    if number == signal.SIGINT:
        return  # it goes on as after SIGTERM
    again = run(app, found[4])
    assert again.returncode == 0, again.stderr
    assert losses(app / folder / "0") == straight
    assert f"resumed from step {found[2]}" in again.stdout
    assert not (app / folder / "0/.zerocfg/stop").exists()
