"""container=docker, apptainer and pyxis under SLURM, each through a stand-in that reads its command line and runs the command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .cluster import SlurmCluster

pytestmark = [pytest.mark.slurm, pytest.mark.integration]
STANDINS = Path(__file__).parents[1] / "containers"
HOSTILE = 'it\'s $(touch PWNED) `touch PWNED` "q" ; touch PWNED #100%'
APP = """
import json, os, socket, sys
import hydra

@hydra.main(version_base=None, config_path=None, config_name="zerocfg")
def main(cfg):
    names = ("INSIDE", "RANK", "WORLD_SIZE", "GREETING", "HF_TOKEN", "PRIVATE", "ZEROCFG_RUN_DIR")
    seen = {name: os.environ.get(name) for name in names}
    print(json.dumps({**seen, "host": socket.gethostname(), "cwd": os.getcwd()}), flush=True)
    return 1.5

main()
"""
SHAPE = ("hardware=cpu", "hardware.num_nodes=2", "hardware.gpus_per_node=1", "hydra/launcher=zerocfg_slurm")
MORE = ("hydra.launcher.poll_seconds=0.3", "hydra.launcher.cpus_per_task=2", "hydra.sweep.dir=out")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slurm: SlurmCluster) -> Path:
    """A folder with an ugly name, stand-ins on the PATH, and the image's interpreter, which leaves a mark in the environment."""
    real_srun = slurm.run("sh", "-c", "command -v srun").strip()
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, words in (("docker", "standin.py docker"), ("apptainer", "standin.py apptainer"), ("srun", f"standin_srun.py {real_srun}")):
        (tools / name).write_text(f'#!/bin/sh\nexec {sys.executable} {STANDINS}/{words} "$@"\n')
        (tools / name).chmod(0o755)
    image = tmp_path / "the image"
    image.mkdir()
    (image / "python3").write_text(f'#!/bin/sh\nINSIDE=yes exec {sys.executable} "$@"\n')
    (image / "python3").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{slurm.env()['PATH']}")
    monkeypatch.setenv("STANDIN_LOG", str(tmp_path / "standin.json"))
    monkeypatch.setenv("HF_TOKEN", "s3cr3t")
    monkeypatch.setenv("PRIVATE", "mine")
    folder = tmp_path / HOSTILE
    folder.mkdir()
    (folder / "app.py").write_text(APP)
    return folder


def run(home: Path, kind: str, *overrides: str) -> tuple[subprocess.CompletedProcess[str], list[dict[str, Any]], dict[str, Any]]:
    """What the launcher said, what each rank saw, what the stand-in was asked for last."""
    python = home.parent / "the image" / "python3"
    greeting = HOSTILE.replace("'", "\\'")
    container = (f"container={kind}", "container.image='an image:1'", f"container.python='{python}'", f"+env.GREETING='{greeting}'")
    command = [sys.executable, "app.py", *SHAPE, *MORE, *container, *overrides]
    done = subprocess.run(command, cwd=home, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    seen = [json.loads((home / f"out/0/rank_{rank}.log").read_text()) for rank in range(2)]
    return done, seen, json.loads((home.parent / "standin.json").read_text())


@pytest.mark.parametrize("kind", ["docker", "apptainer", "pyxis"])
def test_the_ranks_of_two_nodes_run_in_the_container(home: Path, kind: str) -> None:
    _, seen, asked = run(home, kind, "hydra.launcher.preflight=" + ("true" if kind == "docker" else "false"))
    job = home / "out/0"
    assert {rank["host"] for rank in seen} == {"node0", "node1"}
    for number, rank in enumerate(seen):
        assert (rank["INSIDE"], rank["RANK"], rank["WORLD_SIZE"]) == ("yes", str(number), "2")
        assert (rank["cwd"], rank["ZEROCFG_RUN_DIR"]) == (str(home), str(job))
        assert (rank["GREETING"], rank["HF_TOKEN"]) == (HOSTILE, "s3cr3t")
        # docker's ranks get what is named, the others all
        assert rank["PRIVATE"] == (None if kind == "docker" else "mine")
    assert asked["image"] == "an image:1"
    assert [(m["source"], m["target"]) for m in asked["mounts"]] == [(str(home), str(home)), (str(job), str(job))]
    assert list(home.parent.rglob("PWNED")) == []
    (script,) = (home / "out/slurm").glob("*_submission.sh")
    for written in (script, job / "compiled/launch.sh"):
        assert "s3cr3t" not in written.read_text()
        assert written.stat().st_mode & 0o077 == 0
    if kind == "docker":
        assert asked["options"]["--network"] == ["host"]
        (log,) = (home / "out/slurm").glob("*.log")
        assert "preflight: 2 nodes, 2 ranks" in log.read_text()
