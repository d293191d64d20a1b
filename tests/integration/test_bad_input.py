"""hydra/launcher=zerocfg_local with one bad job among good ones, and with a function that cannot be sent: the rest is unharmed."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

GROUPED = """
defaults: [zerocfg, _self_, override hardware: cpu, override model: none, override precision: fp32]
hardware: {gpus_per_node: 2}
hydra: {sweep: {dir: out}}
"""
PLAIN = """
defaults: [_self_, override hydra/launcher: zerocfg_local]
what: good
hydra: {mode: MULTIRUN, sweep: {dir: out, subdir: "${hydra.job.num}"}, launcher: {poll_seconds: 0.05}}
"""
APP = """
import os, signal, sys
import hydra

HERE
@hydra.main(version_base=None, config_path=".", config_name="config")
def main(cfg):
    OPENED
    if cfg.what == "exit":
        sys.exit(3)
    if cfg.what == "leave":
        sys.exit()
    if cfg.what == "raise":
        raise RuntimeError("unwell")
    if cfg.what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    return 1.5

if __name__ == "__main__":
    main()
"""


def run(home: Path, config: str, *overrides: str, here: str = "", opened: str = "pass") -> subprocess.CompletedProcess[str]:
    (home / "app.py").write_text(APP.replace("HERE", here).replace("OPENED", opened))
    (home / "config.yaml").write_text(config)
    # cores of its own: other tests may run at the same time
    environ = {**os.environ, "ZEROCFG_LOCK_DIR": str(home / "locks")}
    command = [sys.executable, "app.py", *overrides]
    return subprocess.run(command, cwd=home, env=environ, capture_output=True, text=True, timeout=600)


def test_jobs_with_one_bad_start_nothing(tmp_path: Path) -> None:
    done = run(tmp_path, GROUPED, "-m", "train.steps=range(0,20)")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("-- job 0: train.steps=0\nerror[ZC221] train.steps")
    assert done.stderr.count("error[") == 1
    assert "\n1 error\n\nnothing was started (20 jobs)\n" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_one_bad_of_two_hundred_jobs_is_left_out(tmp_path: Path) -> None:
    skip = ("hydra.launcher.on_infeasible=skip", "hydra.launcher.dry_run=true")
    done = run(tmp_path, GROUPED, "-m", "train.steps=range(0,200)", *skip)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("error[ZC221]") == 1
    written = sorted(int(path.parents[1].name) for path in (tmp_path / "out").glob("*/compiled/ds_config.json"))
    assert written == list(range(1, 200))


def test_a_job_that_exits_or_is_killed_leaves_the_others_alone(tmp_path: Path) -> None:
    done = run(tmp_path, PLAIN, "what=good,exit,leave,kill,raise,good")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    with (tmp_path / "out" / "results.csv").open(newline="") as file:
        rows = [(row["overrides"], row["state"], row["objective"]) for row in csv.DictReader(file)]
    assert rows == [
        ("what=good", "done", "1.5"),
        ("what=exit", "failed", ""),
        ("what=leave", "done", ""),
        ("what=kill", "failed", ""),
        ("what=raise", "failed", ""),
        ("what=good", "done", "1.5"),
    ]
    assert "job 1 failed: rank 0 of 1: SystemExit: 3" in done.stderr


@pytest.mark.parametrize(
    ("here", "opened", "named"),
    [
        ("LOCK = __import__('threading').Lock()", "LOCK.locked()", "global LOCK of main (lock)"),
        ("LOG = open('log.txt', 'w')", "LOG.name", "global LOG of main (TextIOWrapper)"),
    ],
)
def test_a_task_function_that_cannot_be_pickled_starts_no_job(tmp_path: Path, here: str, opened: str, named: str) -> None:
    done = run(tmp_path, PLAIN, "what=good,exit", here=here, opened=opened)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"error[ZC707] the task function main cannot be sent to the ranks: {named} cannot be pickled\n" in done.stderr
    assert "Traceback" not in done.stderr
    assert "\n1 error\nnothing was started\n" in done.stderr
    assert not (tmp_path / "out").exists()
