"""The sbatch script of each kind of container, whole, and what pyxis cannot do."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from omegaconf import OmegaConf

from zerocfg.compiler import compile_run
from zerocfg.launch.slurm_cluster import Unread
from zerocfg.launch.slurm_options import SlurmOptions
from zerocfg.launch.slurm_place import Placement, check_mountable
from zerocfg.launch.slurm_script import Start, sbatch_script

Make = Callable[..., dict[str, Any]]
HERE = Path(__file__).parent
TWO = {"hardware.num_nodes": 2, "env": {"HF_TOKEN": "s3cr3t", "A": "it's"}}
RUNS: dict[str, dict[str, Any]] = {
    "docker": {"container.kind": "docker", "container.image": "zerocfg"},
    "apptainer": {"container.kind": "apptainer", "container.image": "/images/my zerocfg.sif", **TWO},
    "pyxis": {
        "container.kind": "pyxis",
        "container.image": "/images/my zerocfg.sqsh",
        "container.python": "/opt/conda/bin/python",
        "container.mounts": ["/data:/d:ro", "/it's here"],
        "container.arguments": ["--container-remap-root"],
        **TWO,
    },
}


def placed(container: Make, name: str) -> str:
    options = SlurmOptions(partition="gpu", environment={"WANDB_API_KEY": "k3y", "GREETING": "it's"}, setup=["module load cuda"])
    run = compile_run(container(RUNS[name]))
    shape, problems = Placement(options, Unread("no cluster")).shape(run, "train", accelerator_asked=True)
    assert problems == []
    start = Start(python="/home/me/venv/bin/python", home="/home/me/my project")
    return sbatch_script(shape, [Path("/runs/my job")], Path("/runs/slurm"), start)


@pytest.mark.parametrize("name", RUNS)
def test_whole_script(container: Make, name: str, update_golden: bool) -> None:
    text = placed(container, name)
    path = HERE / "golden" / f"sbatch_{name}.sh"
    if update_golden:
        path.write_text(text)
    assert text == path.read_text()
    assert subprocess.run(["/bin/bash", "-n"], input=text, text=True, capture_output=True).stderr == ""
    assert "s3cr3t" not in text
    assert "k3y" not in text


def test_the_task_in_a_pyxis_container_starts_with_the_images_python(container: Make) -> None:
    last = shlex.split(placed(container, "pyxis").splitlines()[-1])
    assert last[:4] == ["/opt/conda/bin/python", "-m", "zerocfg.launch.slurm_node", "start"]
    for name in ("docker", "apptainer"):
        # launch.sh itself enters these
        assert "container" not in placed(container, name)


def test_folders_that_pyxis_cannot_mount(container: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(check_mountable({"hydra.sweep.dir": "/runs/it's 1", "": "/home/me"})) == []
    found = list(check_mountable({"hydra.sweep.dir": "/runs/lr=1,a=2", "": "/home/12:30"}))
    assert [(problem.code, problem.path) for problem in found] == [("ZC741", "hydra.sweep.dir"), ("ZC741", "")]
    for name, codes in (("pyxis", ["ZC741"]), ("apptainer", [])):
        config = OmegaConf.create({"hardware": {"accelerator": "cuda"}, "hydra": {"job": {"name": "train"}}})
        job: Any = SimpleNamespace(number=0, run=compile_run(container(RUNS[name])), config=config, folder=Path("/runs/lr=1,a=2/0"))
        problems = list(Placement(SlurmOptions(), Unread("no cluster")).check(job))
        assert [problem.code for problem in problems] == codes, os.getcwd()
