"""Optuna's sweeper for Hydra over hydra/launcher=zerocfg_local: rank 0's return value is what it minimises."""

from __future__ import annotations

import csv
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.integration

APP = """
import hydra
import numpy as np
import zerocfg

@hydra.main(version_base=None, config_path=".", config_name="config")
def main(cfg):
    run = zerocfg.current_run()
    inputs = np.random.default_rng(0).normal(size=(32, 3))
    targets = inputs @ np.array([1.0, -2.0, 0.5])
    weights = np.zeros(3)
    for _ in range(5):
        weights -= run.deepspeed_config["optimizer"]["params"]["lr"] * 2 / 32 * inputs.T @ (inputs @ weights - targets)
    loss = float(np.mean((inputs @ weights - targets) ** 2))
    return loss if run.rank == 0 else -1e9

if __name__ == "__main__":
    main()
"""
CONFIG = """
defaults:
  - zerocfg
  - _self_
  - override hydra/sweeper: optuna
  - override hydra/sweeper/sampler: random
  - override hardware: cpu
  - override model: none
  - override precision: fp32
hardware: {gpus_per_node: 2}
hydra:
  sweep: {dir: out}
  launcher: {poll_seconds: 0.05}
  sweeper:
    direction: minimize
    n_trials: 6
    n_jobs: 2
    sampler: {seed: 3}
    params: {optimizer.lr: "interval(0.001, 0.3)"}
"""


def loss_at(lr: float) -> float:
    import numpy as np

    inputs = np.random.default_rng(0).normal(size=(32, 3))
    targets = inputs @ np.array([1.0, -2.0, 0.5])
    weights = np.zeros(3)
    for _ in range(5):
        weights -= lr * 2 / 32 * inputs.T @ (inputs @ weights - targets)
    return float(np.mean((inputs @ weights - targets) ** 2))


def run(folder: Path, *overrides: str, config: str = CONFIG) -> subprocess.CompletedProcess[str]:
    (folder / "app.py").write_text(APP)
    (folder / "config.yaml").write_text(config)
    # cores of its own: other tests may run at the same time
    environ = {**os.environ, "ZEROCFG_LOCK_DIR": str(folder / "locks")}
    command = [sys.executable, "app.py", "-m", *overrides]
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=600)


def test_six_trials_minimise_a_loss_of_two_ranks(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    with (tmp_path / "out" / "results.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["job"], row["state"]) for row in rows] == [(str(i), "done") for i in range(6)]
    rates = [float(row["overrides"].removeprefix("optimizer.lr=")) for row in rows]
    assert len(set(rates)) == 6
    losses = [float(row["objective"]) for row in rows]
    assert all(math.isclose(loss, loss_at(rate), rel_tol=1e-9) for rate, loss in zip(rates, losses, strict=True))
    best = yaml.safe_load((tmp_path / "out" / "optimization_results.yaml").read_text())
    assert best == {"name": "optuna", "best_params": {"optimizer.lr": rates[losses.index(min(losses))]}, "best_value": min(losses)}


def test_a_point_that_cannot_run_is_a_failed_trial(tmp_path: Path) -> None:
    """Also as the only one of its batch."""
    config = CONFIG.replace('optimizer.lr: "interval(0.001, 0.3)"', 'train.steps: "choice(0, 1)"')
    sweeper = [f"hydra.sweeper.{line}" for line in ("sampler.seed=0", "n_trials=2", "n_jobs=1", "max_failure_rate=1")]
    done = run(tmp_path, *sweeper, "hydra.launcher.on_infeasible=skip", "optimizer.lr=0.1", config=config)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr.count("error[ZC221] train.steps=0") == 1
    assert "was left out: it cannot run" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    with (tmp_path / "out" / "results.csv").open(newline="") as file:
        assert sorted(row["state"] for row in csv.DictReader(file)) == ["done", "infeasible"]
