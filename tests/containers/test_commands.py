"""The command that puts the ranks into a container: whole launch.sh files, and what a stand-in for docker and apptainer makes of them."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zerocfg.artifact import CompiledRun
from zerocfg.compiler import compile_run, examine
from zerocfg.emit import COMPILED, launch_script, write_compiled
from zerocfg.passes.lower.container import pyxis_words

Make = Callable[..., dict[str, Any]]
HERE = Path(__file__).parent
STANDIN = HERE / "standin.py"
DOCKER = {"container.kind": "docker", "container.image": "zerocfg"}
RUNS: dict[str, dict[str, Any]] = {
    "docker": DOCKER,
    "docker_two_nodes": {
        **DOCKER,
        "container.image": "repo/my image:1.0",
        "container.shm_size": "16G",
        "container.mounts": ["/data:/d:ro", "/it's,a folder"],
        "container.arguments": ["--group-add=video", "--label=a b"],
        "container.python": "/opt/venv/bin/python",
        "hardware.num_nodes": 2,
        "train.data": "/corpus",
        "env": {"HF_TOKEN": "s3cr3t", "A": "it's"},
    },
    "docker_cpu": {**DOCKER, "hardware.accelerator": "cpu", "container.environment": []},
    "apptainer": {
        "container.kind": "apptainer",
        "container.image": "/images/zerocfg.sif",
        "offload": {"optimizer": "nvme", "nvme_path": "/nvme"},
        "env.HF_TOKEN": "s3cr3t",
    },
    "pyxis": {"container.kind": "pyxis", "container.image": "/images/zerocfg.sqsh", "container.mounts": ["/data:/d:ro"]},
}


def compiled(container: Make, name: str) -> CompiledRun:
    return compile_run(container(RUNS[name]))


@pytest.mark.parametrize("name", RUNS)
def test_whole_script(container: Make, name: str, update_golden: bool) -> None:
    run = compiled(container, name)
    text = launch_script(run, program=("-m", "x", "a b"), cwd=Path("/home/user/my project"), python="/usr/bin/python3")
    if name == "pyxis":
        text += "\n# srun's words\n" + "\n".join(pyxis_words(run.plan.container, run.environment)) + "\n"
    path = HERE / "golden" / f"{name}.sh"
    if update_golden:
        path.write_text(text)
    assert text == path.read_text()
    assert subprocess.run(["/bin/sh", "-n"], input=text, text=True, capture_output=True).stderr == ""
    assert "s3cr3t" not in text


def test_without_a_container_nothing_is_said(container: Make) -> None:
    run = compile_run(container())
    assert run.container == run.container_setup == ()
    assert "container" not in run.as_dict()
    assert [path for path in run.provenance if path.startswith("container")] == []


def test_every_word_has_a_reason(container: Make) -> None:
    run = compiled(container, "docker_two_nodes")
    explained = {path: entry for path, entry in run.provenance.items() if path.startswith("container.")}
    assert " ".join(str(entry.value) for entry in explained.values()).split(" ") == " ".join(run.container).split(" ")
    assert all(entry.reason for entry in explained.values())
    assert run.as_dict()["container"] == list(run.container)


@pytest.mark.parametrize(
    ("text", "source", "target", "read_only"),
    [
        ("/a", "/a", "/a", False),
        ("/a:/b", "/a", "/b", False),
        ("/a:ro", "/a", "/a", True),
        ("/a:/b:ro", "/a", "/b", True),
        ("/a:/b:rw", "/a", "/b", False),
    ],
)
def test_mounts(container: Make, text: str, source: str, target: str, read_only: bool) -> None:
    (mount,) = compile_run(container({**DOCKER, "container.mounts": [text]})).plan.container.mounts
    assert (mount.source, mount.target, mount.read_only) == (source, target, read_only)


@pytest.mark.parametrize("text", ["", "a", "/a:b", "/a:/b:/c", "/a:/b:x", ":", "/a\n", "~/a"])
def test_what_is_no_mount(container: Make, text: str) -> None:
    outcome = examine(container({**DOCKER, "container.mounts": [text]}))
    assert [d.code for d in outcome.diagnostics] == ["ZC741"]


def test_folders_that_the_run_names_are_there(container: Make) -> None:
    changes = {"train.data": "/corpus", "checkpoint": {"every_steps": 10, "directory": "/saved", "resume": "/old/run"}}
    mounts = compile_run(container({**DOCKER, **changes})).plan.container.mounts
    assert [(m.source, m.read_only) for m in mounts] == [("/corpus", True), ("/saved", False), ("/old/run", False)]
    # one that the user has put there stays as it is
    mounts = compile_run(container({**DOCKER, "train.data": "/corpus", "container.mounts": ["/big/disk:/corpus"]})).plan.container.mounts
    assert [(m.source, m.target) for m in mounts] == [("/big/disk", "/corpus")]
    assert compile_run(container({**DOCKER, "train.data": "corpus"})).plan.container.mounts == ()


HOSTILE = ["plain", "with space", "comma,colon:and;semi", "qu'o\"te", "$(touch PWNED)", "`touch PWNED`", "lr=1e-4,a=[1,2]", "-n", "ünï*?"]


@pytest.fixture
def recorder(tmp_path: Path) -> tuple[Path, Callable[[], dict[str, Any]]]:
    """An interpreter that keeps its arguments, environment and folder."""
    out, script = tmp_path / "seen.json", tmp_path / "bin" / "in ner python"
    script.parent.mkdir()
    script.write_text(
        f"#!{sys.executable}\nimport json, os, sys\n"
        f"json.dump({{'args': sys.argv[1:], 'env': dict(os.environ), 'cwd': os.getcwd()}}, open({str(out)!r}, 'w'))\n"
    )
    script.chmod(0o755)
    return script, lambda: json.loads(out.read_text())


@pytest.fixture
def path_with_standins(tmp_path: Path) -> str:
    folder = tmp_path / "standins"
    folder.mkdir()
    for name in ("docker", "apptainer"):
        (folder / name).write_text(f'#!/bin/sh\nexec {sys.executable} {STANDIN} {name} "$@"\n')
        (folder / name).chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


@pytest.mark.parametrize("kind", ["docker", "apptainer"])
@pytest.mark.parametrize("name", HOSTILE)
def test_the_ranks_see_what_they_see_without(
    tmp_path: Path,
    container: Make,
    monkeypatch: pytest.MonkeyPatch,
    recorder: tuple[Path, Callable[[], dict[str, Any]]],
    path_with_standins: str,
    kind: str,
    name: str,
) -> None:
    python, seen = recorder
    home, job = tmp_path / f"home {name}", tmp_path / name / "0"
    for folder in (home, tmp_path / "more, data"):
        folder.mkdir()
    monkeypatch.chdir(home)
    changes = {
        "container.kind": kind,
        "container.image": f"image {name}",
        "container.python": str(python),
        "container.mounts": [f"{tmp_path}/more, data:/d:ro"],
        "env": {"HF_TOKEN": "s3cr3t", "GREETING": name, "NCCL_ALGO": "Ring"},
    }
    program = ("-m", "x", name)
    environ = {"PATH": path_with_standins, "STANDIN_LOG": str(tmp_path / "log.json"), "HF_TOKEN": "s3cr3t", "OMP_NUM_THREADS": "3"}
    environ |= {"WANDB_API_KEY": "k3y", "CUDA_VISIBLE_DEVICES": "3,GPU-0a1b", "PRIVATE": "mine"}
    seen_by: dict[str, dict[str, Any]] = {}
    for where in (kind, "none"):
        run = compile_run(container(changes if where == kind else {"env": changes["env"]}))
        write_compiled(run, job / COMPILED, program=program, python=str(python))
        script = job / COMPILED / "launch.sh"
        assert stat.S_IMODE(script.stat().st_mode) == 0o700
        done = subprocess.run([str(script)], cwd="/", env=environ, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        seen_by[where] = seen()
    inside, outside = seen_by[kind], seen_by["none"]
    assert inside["args"] == outside["args"]
    assert inside["cwd"] == outside["cwd"] == str(home)
    names = {"GREETING", "NCCL_ALGO", "HF_TOKEN", "WANDB_API_KEY", "OMP_NUM_THREADS", "DEEPSPEED_TIMEOUT", "ZEROCFG_RUN_DIR"}
    assert {n: inside["env"][n] for n in names} == {n: outside["env"][n] for n in names}
    assert inside["env"]["ZEROCFG_RUN_DIR"] == str(job)
    asked = json.loads((tmp_path / "log.json").read_text())
    assert [m["source"] for m in asked["mounts"]] == [str(home), str(job), f"{tmp_path}/more, data"]
    assert [m["target"] for m in asked["mounts"]] == [str(home), str(job), "/d"]
    assert asked["image"] == f"image {name}"
    if kind == "docker":
        # docker counts the GPUs that it is given from 0
        assert asked["options"]["--gpus"] == ["device=3,GPU-0a1b"]
        assert "CUDA_VISIBLE_DEVICES" not in inside["env"]
        assert "PRIVATE" not in inside["env"]
        assert asked["options"]["--user"] == [f"{os.getuid()}:{os.getgid()}"]
    else:
        assert inside["env"]["CUDA_VISIBLE_DEVICES"] == "3,GPU-0a1b"
    assert list(tmp_path.rglob("PWNED")) == []
    assert all("s3cr3t" not in path.read_text() for path in job.rglob("*") if path.is_file())


def test_all_gpus_without_a_mask(
    tmp_path: Path, container: Make, recorder: tuple[Path, Callable[[], dict[str, Any]]], path_with_standins: str
) -> None:
    run = compile_run(container({**DOCKER, "container.python": str(recorder[0])}))
    write_compiled(run, tmp_path / "job" / COMPILED, program=("x",))
    environ = {"PATH": path_with_standins, "STANDIN_LOG": str(tmp_path / "log.json")}
    subprocess.run([str(tmp_path / "job" / COMPILED / "launch.sh")], env=environ, check=True)
    assert json.loads((tmp_path / "log.json").read_text())["options"]["--gpus"] == ["all"]


def test_a_program_of_launch_sh_s_own_arguments(
    tmp_path: Path, container: Make, recorder: tuple[Path, Callable[[], dict[str, Any]]], path_with_standins: str
) -> None:
    run = compile_run(container({**DOCKER, "container.python": str(recorder[0])}))
    write_compiled(run, tmp_path / "job" / COMPILED)
    environ = {"PATH": path_with_standins, "STANDIN_LOG": str(tmp_path / "log.json")}
    subprocess.run([str(tmp_path / "job" / COMPILED / "launch.sh"), "train.py", "a b", "$x"], env=environ, check=True)
    assert recorder[1]()["args"][-3:] == ["train.py", "a b", "$x"]
