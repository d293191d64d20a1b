"""Two nodes: a rank that hangs is named and the job ended; a folder for swap files on a disk that the nodes share."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hang_app import APP, SLEEPS

from .cluster import SlurmCluster

pytestmark = [pytest.mark.slurm, pytest.mark.integration]
CONFIG = """
defaults:
  - zerocfg
  - override model: none
  - _self_
  - override hydra/launcher: zerocfg_slurm
  - override hardware: cpu
hardware: {num_nodes: 2, gpus_per_node: 1}
precision: {dtype: fp32}
parallelism: {stage: 2}
batch: {global_batch_size: 8}
train: {steps: 10, log_every: 1}
communication: {timeout_minutes: 0.3}
hydra:
  sweep: {dir: out}
  launcher: {poll_seconds: 0.3, cpus_per_task: 2}
"""
SWAPS = """
import time
from pathlib import Path
import hydra, zerocfg

@hydra.main(version_base=None, config_path=".", config_name="config")
def main(cfg):
    run = zerocfg.current_run()
    folder = Path(run.deepspeed_config["zero_optimization"]["offload_optimizer"]["nvme_path"])
    (folder / f"rank{run.rank}.swp").touch()
    while not all((folder / f"rank{rank}.swp").exists() for rank in (0, 1)):
        time.sleep(0.05)
    (run.output_dir / f"seen_{run.rank}").write_text(" ".join(sorted(path.name for path in folder.iterdir())))
    time.sleep(3 * run.rank)

if __name__ == "__main__":
    main()
"""


def launch(home: Path, app: str, *overrides: str) -> subprocess.CompletedProcess[str]:
    (home / "app.py").write_text(app)
    (home / "config.yaml").write_text(CONFIG)
    return subprocess.run([sys.executable, "app.py", *overrides], cwd=home, capture_output=True, text=True, timeout=300, check=False)


def test_a_rank_that_hangs_on_a_node_of_its_own(slurm: SlurmCluster, tmp_path: Path) -> None:
    done = launch(tmp_path, APP, "+fault=hang", "checkpoint.every_steps=50")
    assert done.returncode == 1
    told = re.search(
        r"^job 0 failed: a collective timed out \(all_reduce\): rank 1 of 2 is missing\n"
        rf"  rank 1: step 3, for \d+ s  app.py:{SLEEPS} in main: time.sleep\(1000\)\n"
        r"  rank 0: step 3, backward, waits in all_reduce, for \d+ s  app.py:\d+ in main: engine.backward\(loss\)\n"
        r"  timed out: rank 0: Timed out waiting 18000ms for (recv|send) operation\n"
        rf"  log: {tmp_path}/out/0/rank_0.log$",
        done.stderr,
        re.MULTILINE,
    )
    assert told is not None, done.stderr + done.stdout
    assert slurm.node_states() == {"node0": "idle", "node1": "idle"}


def test_the_last_node_removes_what_both_have_used(slurm: SlurmCluster, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    done = launch(tmp_path, SWAPS, "parallelism.stage=3", "offload.optimizer=nvme", f"offload.nvme_path={disk}")
    assert done.returncode == 0, done.stderr + done.stdout
    for rank in (0, 1):
        assert (tmp_path / f"out/0/seen_{rank}").read_text() == ".lock.node0 .lock.node1 rank0.swp rank1.swp"
    assert [path.name for path in disk.iterdir()] == [".zerocfg.lock"]
