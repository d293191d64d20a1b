"""hydra.launcher.preflight=true on two nodes: fit ones train, one that is not is named and nothing is trained."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .cluster import SlurmCluster

pytestmark = [pytest.mark.slurm, pytest.mark.integration]
APP = """
import socket
import hydra

@hydra.main(version_base=None, config_path=None, config_name="zerocfg")
def main(cfg):
    print("trained on", socket.gethostname(), flush=True)
    return 1.5

main()
"""
PROLOG = """#!/bin/sh
# srun starts it before each task and takes over what it exports
[ "$(hostname)" != node1 ] || echo export PYTHONPATH={folder}
"""
WORDS = ("hardware=cpu", "hardware.num_nodes=2", "hydra/launcher=zerocfg_slurm", "hydra.sweep.dir=out", "hydra.launcher.preflight=true")
MORE = ("hydra.launcher.poll_seconds=0.3", "hydra.launcher.cpus_per_task=2", "hardware.gpus_per_node=1")


def zerocfg(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "zerocfg", *words], cwd=home, capture_output=True, text=True, timeout=60)


def launch(home: Path, *overrides: str) -> subprocess.CompletedProcess[str]:
    (home / "app.py").write_text(APP)
    return subprocess.run(
        [sys.executable, "app.py", *WORDS, *MORE, *overrides], cwd=home, capture_output=True, text=True, timeout=240, check=False
    )


@contextmanager
def loopback_names(slurm: SlurmCluster, folder: Path) -> Iterator[None]:
    """Each host calls itself 127.0.1.1, as Debian's installer sets it up."""
    for name in slurm.node_names:
        lines = slurm.inside(name, "cat", "/etc/hosts").splitlines()
        file = folder / f"hosts_of_{name}"
        file.write_text("".join(f"127.0.1.1 {name}\n" if line.endswith(f" {name}") else f"{line}\n" for line in lines))
        slurm.inside(name, "mount", "--bind", str(file), "/etc/hosts")
    try:
        yield
    finally:
        for name in slurm.node_names:
            slurm.inside(name, "umount", "/etc/hosts")


def test_two_fit_nodes_that_know_themselves_as_loopback_train(slurm: SlurmCluster, tmp_path: Path) -> None:
    with loopback_names(slurm, tmp_path):
        done = launch(tmp_path)
    assert done.returncode == 0, done.stderr
    hosts = {(tmp_path / f"out/0/rank_{rank}.log").read_text().split()[-1] for rank in range(2)}
    assert hosts == {"node0", "node1"}
    records = [json.loads((tmp_path / f"out/0/.zerocfg/preflight/rank_{rank}.json").read_text()) for rank in range(2)]
    assert {(record["host"], record["stage"], record["right"]) for record in records} == {("node0", "done", True), ("node1", "done", True)}
    assert all(record["findings"] for record in records)
    (log,) = (tmp_path / "out/slurm").glob("*.log")
    assert "preflight: 2 nodes, 2 ranks; product " in log.read_text()
    assert not (tmp_path / "out/0/.zerocfg/preflight/report.txt").exists()


def test_a_node_with_a_small_shm_is_named_and_nothing_is_trained(slurm: SlurmCluster, tmp_path: Path) -> None:
    slurm.inside("node1", "mount", "-o", "remount,size=64m", "/dev/shm")
    try:
        done = launch(tmp_path, "train.num_workers=1")
    finally:
        slurm.inside("node1", "mount", "-o", "remount,size=50%", "/dev/shm")
    assert done.returncode == 1
    _, _, report = done.stderr.partition("job 0 failed its preflight, nothing was trained\n")
    lines = report.splitlines()
    assert lines[0].startswith("  SLURM job ")
    assert lines[1:3] == [
        "    error[ZC880] node1: /dev/shm: /dev/shm has 64 MiB: NCCL and data loaders of several ranks need 1 GiB or more",
        "      try: sudo mount -o remount,size=16G /dev/shm; in docker --ipc=host or --shm-size=16g, as container=docker does",
    ]
    assert list((tmp_path / "out/0").glob("rank_*.log")) == []
    told = zerocfg(tmp_path, "jobs", "out")
    assert told.returncode == 1
    assert "job 0: failed: its preflight: error[ZC880] node1: /dev/shm: /dev/shm has 64 MiB" in told.stdout


def test_a_node_whose_torch_does_not_import_is_named_with_its_words(slurm: SlurmCluster, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    (broken / "torch").mkdir(parents=True)
    (broken / "torch/__init__.py").write_text("raise ImportError('libcudart.so.13: cannot open shared object file')\n")
    prolog = tmp_path / "prolog.sh"
    prolog.write_text(PROLOG.format(folder=broken))
    prolog.chmod(0o755)
    done = launch(tmp_path, f"+hydra.launcher.srun.task_prolog={prolog}")
    assert done.returncode == 1
    assert "job 0 failed its preflight, nothing was trained" in done.stderr
    assert "error[ZC881] node1 did not get through the preflight\n      node1: Exited with exit code 1\n" in done.stderr
    assert "ImportError: libcudart.so.13: cannot open shared object file" in done.stderr
    assert list((tmp_path / "out/0").glob("rank_*.log")) == []
