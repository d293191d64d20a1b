"""compiled/: what is written is what is run, from any folder, and no value of it is ever executed as shell text."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zerocfg.artifact import CompiledRun
from zerocfg.compiler import compile_run
from zerocfg.diagnostics import ConfigProblems
from zerocfg.emit import COMPILED, is_secret, read_compiled, replace_text, set_aside, write_compiled
from zerocfg.runtime.stored_plan import plan_from

Make = Callable[..., dict[str, Any]]
FILES = {"ds_config.json", "torchrun.json", "environment.json", "resources.json", "plan.json", "provenance.json", "launch.sh"}
HOSTILE = ["a b", "it's", 'say "hi"', "$(touch PWNED)", "`touch PWNED`", "x;touch PWNED", "line\nbreak\n", "$HOME", "\\", "*"]


@pytest.fixture
def recorder(tmp_path: Path) -> tuple[Path, Callable[[], dict[str, Any]]]:
    """A stand-in for the interpreter that keeps its arguments, environment and folder."""
    out = tmp_path / "seen"
    script = tmp_path / "fake python"
    script.write_text(f"""#!/bin/sh
cd . && pwd -P > '{out}.cwd'
for word in "$@"; do printf '%s\\0' "$word"; done > '{out}.args'
env -0 > '{out}.env'
""")
    script.chmod(0o755)

    def seen() -> dict[str, Any]:
        env = dict(pair.split("=", 1) for pair in Path(f"{out}.env").read_text().split("\0") if pair)
        return {"args": Path(f"{out}.args").read_text().split("\0")[:-1], "env": env, "cwd": Path(f"{out}.cwd").read_text()[:-1]}

    return script, seen


def run_script(*command: str | Path, cwd: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], **environ}
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)


def test_what_is_written_is_read_back(tmp_path: Path, container: Make) -> None:
    run = compile_run(container({"batch.global_batch_size": 64, "env": {"A": "1"}}))
    write_compiled(run, tmp_path / "job" / COMPILED, program=("-m", "x"))
    assert {path.name for path in (tmp_path / "job" / COMPILED).iterdir()} == FILES
    stored = read_compiled(tmp_path / "job" / COMPILED)
    assert stored.deepspeed == run.deepspeed
    assert stored.torchrun == run.torchrun
    assert stored.environment == run.environment
    assert stored.resources == run.as_dict()["resources"]
    assert plan_from(stored.plan) == run.plan
    provenance = json.loads((tmp_path / "job" / COMPILED / "provenance.json").read_text())
    assert provenance.keys() == run.provenance.keys()
    assert provenance["zero_optimization.stage"]["value"] == 3


def test_a_model_that_is_not_described_is_read_back(tmp_path: Path, container: Make) -> None:
    run = compile_run(container({"model": {}}))
    write_compiled(run, tmp_path / COMPILED)
    assert plan_from(read_compiled(tmp_path / COMPILED).plan) == run.plan
    assert run.plan.model is None


def test_a_damaged_folder_is_named(tmp_path: Path, container: Make) -> None:
    write_compiled(compile_run(container()), tmp_path / COMPILED)
    folder = tmp_path / COMPILED
    plan = json.loads((folder / "plan.json").read_text())
    (folder / "torchrun.json").unlink()
    for text, why in (
        ("{", "Expecting property name"),
        ("[" * 100_000, "maximum recursion depth"),
        ("[]", "it is no mapping"),
        (json.dumps({**plan, "zero": {**plan["zero"], "stage": "3"}}), "zero.stage is no whole number"),
        (json.dumps({name: section for name, section in plan.items() if name != "train"}), "it has no train"),
    ):
        (folder / "plan.json").write_text(text)
        with pytest.raises(ConfigProblems) as caught:
            read_compiled(folder)
        assert [problem.code for problem in caught.value.diagnostics] == ["ZC757", "ZC757"]
        assert caught.value.diagnostics[0].message.startswith(f"{folder}/plan.json cannot be read: {why}")


@pytest.mark.parametrize("name", ["plain", "with space", "qu'o\"te", "new\nline\n", "$(touch PWNED)", "-n"])
def test_launch_sh_runs_from_anywhere(
    tmp_path: Path, container: Make, monkeypatch: pytest.MonkeyPatch, recorder: tuple[Path, Callable[[], dict[str, Any]]], name: str
) -> None:
    python, seen = recorder
    home = tmp_path / "home of the run"
    home.mkdir()
    job = tmp_path / name / "0"
    monkeypatch.chdir(home)
    program = ("-m", "zerocfg.launch.worker", *HOSTILE)
    run = compile_run(container())
    write_compiled(run, job / COMPILED, program=program, python=str(python))
    script = job / COMPILED / "launch.sh"
    assert stat.S_IMODE(script.stat().st_mode) == 0o700
    for command, cwd in (
        ([str(script)], "/"),
        (["./launch.sh"], script.parent),
        (["sh", "launch.sh"], script.parent),
        (["compiled/launch.sh"], job),
    ):
        assert run_script(*command, cwd=cwd).stderr == ""
        said = seen()
        log_dir = f"--log-dir={job}/torchrun"
        expected = [log_dir if a.startswith("--log-dir") else a for a in run.torchrun]
        assert said["args"] == ["-u", "-m", "torch.distributed.run", *expected, *program]
        assert said["env"]["ZEROCFG_RUN_DIR"] == str(job)
        assert said["cwd"] == str(home)
    assert list(tmp_path.rglob("PWNED")) == []


def test_launch_sh_takes_a_program_of_its_own_arguments(
    tmp_path: Path, container: Make, recorder: tuple[Path, Callable[[], dict[str, Any]]]
) -> None:
    python, seen = recorder
    write_compiled(compile_run(container()), tmp_path / "out" / COMPILED, python=str(python))
    script = tmp_path / "out" / COMPILED / "launch.sh"
    without = run_script(script, cwd=tmp_path)
    assert (without.returncode, without.stderr) == (2, f"usage: {script} SCRIPT.py ARGUMENTS\n")
    run_script(script, "my train.py", *HOSTILE, cwd=tmp_path)
    assert seen()["args"][-len(HOSTILE) - 1 :] == ["my train.py", *HOSTILE]


def test_environment(tmp_path: Path, container: Make, recorder: tuple[Path, Callable[[], dict[str, Any]]]) -> None:
    """`env` of the config beats the user's environment, which beats the plan; hostile values arrive as they are."""
    python, seen = recorder
    hostile = {f"H{i}": value for i, value in enumerate(HOSTILE)}
    run = compile_run(container({"env": {"NCCL_ALGO": "Ring", **hostile}}), environ={"NCCL_ALGO": "Tree"})
    write_compiled(run, tmp_path / COMPILED, program=("x",), python=str(python))
    run_script(tmp_path / COMPILED / "launch.sh", cwd=tmp_path, NCCL_ALGO="Tree", OMP_NUM_THREADS="3")
    env = seen()["env"]
    assert env["NCCL_ALGO"] == "Ring"
    assert env["OMP_NUM_THREADS"] == "3"
    assert env["DEEPSPEED_TIMEOUT"] == run.environment["DEEPSPEED_TIMEOUT"]
    assert {name: env[name] for name in hostile} == hostile
    assert list(tmp_path.rglob("PWNED")) == []


def test_secrets_are_not_written(tmp_path: Path, container: Make, recorder: tuple[Path, Callable[[], dict[str, Any]]]) -> None:
    python, seen = recorder
    run = compile_run(container({"env": {"HF_TOKEN": "s3cr3t", "PLAIN": "open"}}))
    write_compiled(run, tmp_path / COMPILED, program=("x",), python=str(python))
    for path in (tmp_path / COMPILED).iterdir():
        assert "s3cr3t" not in path.read_text()
    said = run_script(tmp_path / COMPILED / "launch.sh", cwd=tmp_path)
    assert said.stderr == "HF_TOKEN is not set: its value is not written here\n"
    assert seen()["env"]["PLAIN"] == "open"
    assert run_script(tmp_path / COMPILED / "launch.sh", cwd=tmp_path, HF_TOKEN="mine").stderr == ""
    assert seen()["env"]["HF_TOKEN"] == "mine"


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("HF_TOKEN", True),
        ("AWS_SECRET_ACCESS_KEY", True),
        ("wandb_api_key", True),
        ("DB_PASSWORD", True),
        ("TOKENIZERS_PARALLELISM", False),
        ("NCCL_DEBUG", False),
        ("KEYBOARD", False),
    ],
)
def test_is_secret(name: str, secret: bool) -> None:
    assert is_secret(name) is secret


def test_several_nodes_take_the_rendezvous_from_the_environment(
    tmp_path: Path, container: Make, recorder: tuple[Path, Callable[[], dict[str, Any]]]
) -> None:
    python, seen = recorder
    run: CompiledRun = compile_run(container({"hardware.num_nodes": 2}))
    write_compiled(run, tmp_path / COMPILED, program=("x",), python=str(python))
    script = tmp_path / COMPILED / "launch.sh"
    refused = run_script(script, cwd=tmp_path)
    assert refused.returncode != 0
    assert "ZEROCFG_RDZV_HOST: set it to the name of the first machine" in refused.stderr
    run_script(script, cwd=tmp_path, ZEROCFG_RDZV_HOST="node 1;touch PWNED", ZEROCFG_RDZV_ID="job7")
    assert "--rdzv-endpoint=node 1;touch PWNED:29500" in seen()["args"]
    assert "--rdzv-id=job7" in seen()["args"]
    assert "--rdzv-conf=join_timeout=900" in seen()["args"]
    # what a launcher decides where the job starts
    decided = {"ZEROCFG_RDZV_HOST": "[fd00::1]", "ZEROCFG_RDZV_PORT": "15008", "ZEROCFG_RDZV_CONF": "is_host=1,a=$(touch PWNED)"}
    run_script(script, cwd=tmp_path, **decided)
    assert "--rdzv-endpoint=[fd00::1]:15008" in seen()["args"]
    assert "--rdzv-id=zerocfg" in seen()["args"]
    assert "--rdzv-conf=join_timeout=900,is_host=1,a=$(touch PWNED)" in seen()["args"]
    assert list(tmp_path.rglob("PWNED")) == []


def test_set_aside_never_overwrites(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    assert set_aside(path) is None
    for text in ("one", "two"):
        path.write_text(text)
        set_aside(path)
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"metrics.1.jsonl": "one", "metrics.2.jsonl": "two"}


def test_a_file_that_cannot_be_replaced_leaves_no_draft(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(IsADirectoryError):
        replace_text(tmp_path / "taken", "text")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
