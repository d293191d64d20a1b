"""zerocfg launch --target slurm on the test cluster: a script without Hydra over two nodes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from .cluster import SlurmCluster

pytestmark = [pytest.mark.slurm, pytest.mark.integration]
SCRIPT = """
import os, socket, sys, zerocfg
run = zerocfg.current_run()
print("rank", run.rank, "of", run.world_size, "on", socket.gethostname(), sys.argv[1:], flush=True)
sys.exit(5 if sys.argv[1] == "fail" and run.rank == 1 else 0)
"""


@pytest.fixture
def home(tmp_path: Path, slurm: SlurmCluster) -> Path:
    folder = tmp_path / "a script's home"
    folder.mkdir()
    (folder / "script.py").write_text(SCRIPT)
    return folder


def zerocfg(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "zerocfg", *words], cwd=home, capture_output=True, text=True, timeout=240)


def launch(home: Path, what: str, *overrides: str) -> subprocess.CompletedProcess[str]:
    shape = ("hardware=cpu", "hardware.num_nodes=2", "hardware.gpus_per_node=1", "precision=fp32", "model=none", "parallelism=zero1")
    line = ("launch", "--target", "slurm", "--out", "job", *shape, "hydra.launcher.poll_seconds=0.3", *overrides)
    return zerocfg(home, *line, "--", "script.py", what, "{ds_config}")


def test_two_nodes_and_a_failing_rank(home: Path) -> None:
    done = launch(home, "return")
    job = home / "job"
    words = ["return", f"{job}/compiled/ds_config.json"]
    assert done.returncode == 0, done.stderr
    logs = [(job / f"rank_{rank}.log").read_text() for rank in range(2)]
    hosts = [log.split()[5] for log in logs]
    assert len(set(hosts)) == 2
    assert logs == [f"rank {rank} of 2 on {host} {words}\n" for rank, host in enumerate(hosts)]
    assert done.stdout == logs[0]

    done = launch(home, "fail")
    assert done.returncode == 5
    _, end = done.stderr.split("job 0 failed: ")
    assert end.splitlines()[:2] == ["rank 1 of 2: exit status 5", f"  log: {job}/rank_1.log"]
    assert end.splitlines()[-1].strip().startswith("rank 1 of 2 on ")
    assert (job / "rank_0.1.log").read_text() == logs[0]  # of the run before

    status = zerocfg(home, "jobs", "job", "--json")
    assert status.returncode == 1
    (row,) = json.loads(status.stdout)
    assert (row["job"], row["state"]) == (0, "failed")


def test_without_waiting(home: Path) -> None:
    done = launch(home, "return", "hydra.launcher.wait=false")
    assert (done.returncode, done.stdout) == (0, "")
    assert "job 0: submitted as SLURM job " in done.stderr
    assert (home / "job" / "slurm" / "jobs.json").is_file()


def test_a_partition_that_does_not_exist(home: Path) -> None:
    done = launch(home, "return", "hydra.launcher.partition=nowhere")
    assert (done.returncode, done.stdout) == (1, "")
    assert "error[ZC725]" in done.stderr
    assert done.stderr.endswith("nothing was started\n")
    assert not (home / "job").exists()
