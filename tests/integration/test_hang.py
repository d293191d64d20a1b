"""Two ranks, a real DeepSpeed engine: one does not come, or dies. The launcher ends the job and says which one, and where it stood."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.hang_app import APP, SLEEPS

pytestmark = pytest.mark.integration
CONFIG = """
defaults: [zerocfg, override model: none, _self_]
fault: hang
hydra: {sweep: {dir: out}, launcher: {poll_seconds: 0.05}}
hardware: {name: cpu, detect: true, accelerator: cpu, gpus_per_node: 2}
precision: {dtype: fp32}
parallelism: {stage: 2}
batch: {global_batch_size: 8}
train: {steps: 10, log_every: 1}
communication: {timeout_minutes: 0.2}
"""


@pytest.fixture
def app(tmp_path: Path) -> Path:
    home = tmp_path / "some where"
    home.mkdir()
    (home / "app.py").write_text(APP)
    (home / "config.yaml").write_text(CONFIG)
    return home


def run(app: Path, *overrides: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "app.py", *overrides]
    return subprocess.run(command, cwd=app, capture_output=True, text=True, timeout=200, check=False)


# while checkpoints are saved, SIGTERM of torchrun alone ends no rank
@pytest.mark.parametrize("saving", [(), ("checkpoint.every_steps=50",)])
def test_a_rank_that_hangs(app: Path, saving: tuple[str, ...]) -> None:
    begun = time.monotonic()
    done = run(app, *saving)
    assert done.returncode == 1
    assert time.monotonic() - begun < 120  # torch's own for gloo is half an hour
    told = re.search(
        r"^job 0 failed: a collective timed out \(all_reduce\): rank 1 of 2 is missing\n"
        rf"  rank 1: step 3, for \d+ s  app.py:{SLEEPS} in main: time.sleep\(1000\)\n"
        r"  rank 0: step 3, backward, waits in all_reduce, for \d+ s  app.py:\d+ in main: engine.backward\(loss\)\n"
        r"  timed out: rank 0: Timed out waiting 12000ms for (recv|send) operation\n"
        rf"  log: {app}/out/0/rank_0.log$",
        done.stderr,
        re.MULTILINE,
    )
    assert told is not None, done.stderr
    # rank 0 has said it itself, already before the timeout
    log = (app / "out/0/rank_0.log").read_text()
    assert "s, a collective may take 12 s; rank 1 of 2 is missing\n  rank 1: step 3, for " in log
    assert "\na collective timed out (all_reduce): rank 1 of 2 is missing\n  rank 1: step 3, for " in log


def test_a_rank_that_is_killed(app: Path) -> None:
    """The other one fails too, with gloo's word for a lost connection: that is not the cause."""
    done = run(app, "fault=kill")
    assert done.returncode == 1
    line = next(i for i, text in enumerate(APP.splitlines(), 1) if "time.sleep(2)" in text)
    told = (
        "job 0 failed: rank 1 of 2 was ended by SIGKILL (out of memory?), last seen in step 3: "
        f"app.py:{line} in main: time.sleep(2)  # the heartbeat is seen here\n  log: {app}/out/0/rank_1.log\n"
    )
    assert told in done.stderr
    assert "Traceback" not in done.stderr
