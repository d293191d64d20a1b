"""zerocfg bench comm --target slurm: ranks on two nodes, the table and the file here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from .cluster import SlurmCluster

pytestmark = [pytest.mark.slurm, pytest.mark.integration]
SHAPE = (
    "hardware=cpu",
    "hardware.num_nodes=2",
    "hardware.gpus_per_node=1",
    "hydra.launcher.cpus_per_task=2",
    "hydra.launcher.poll_seconds=0.3",
)
ASKED = ("--sizes", "4K,64K", "--ops", "all_reduce,broadcast", "--out", "curve.json", "--plot", "comm.svg", "--json")


def bench(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "zerocfg", "bench", "comm", *SHAPE, "--target", "slurm", *words]
    return subprocess.run(command, cwd=home, capture_output=True, text=True, timeout=240)


def test_two_nodes(slurm: SlurmCluster, tmp_path: Path) -> None:
    home = tmp_path / "it's a folder"
    home.mkdir()
    done = bench(home, *ASKED, "hydra.sweep.dir=job")
    assert done.returncode == 0, done.stderr
    assert "job 0: submitted as SLURM job " in done.stderr
    made = json.loads(done.stdout)
    assert [(row["op"], row["bytes"]) for row in made["rows"]] == [
        (op, size) for op in ("all_reduce", "broadcast") for size in (4096, 65536)
    ]
    assert made["problems"] == []
    curve = json.loads((home / "curve.json").read_text())
    assert [curve[name] for name in ("backend", "world", "nodes", "gpu")] == ["gloo", 2, 2, "cpu"]
    assert all(seconds > 0 for op in ("all_reduce", "broadcast") for _, seconds in curve[op])
    assert "all_reduce gloo" in (home / "comm.svg").read_text()
    assert (home / "job/rank_0.log").is_file()


def test_ranks_that_fail(slurm: SlurmCluster, tmp_path: Path) -> None:
    done = bench(tmp_path, *ASKED, "hardware.network_interface=nonet9", "hydra.sweep.dir=job")
    assert done.returncode == 1
    assert [(p["code"], p["message"]) for p in json.loads(done.stdout)["problems"]] == [("ZC873", "the job failed, status 1")]
    assert "error[ZC732] " in done.stderr
    assert "GLOO_SOCKET_IFNAME=nonet9" in done.stderr
    assert not (tmp_path / "curve.json").exists()
