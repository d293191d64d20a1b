"""Two ranks under torchrun, without DeepSpeed: which rank failed, and that none outlives the launcher."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from zerocfg.launch.paths import JOB_TOKEN

pytestmark = pytest.mark.integration

APP = """
import json, os, sys, time
import hydra, zerocfg

@hydra.main(version_base=None, config_path=".", config_name="config")
def main(cfg):
    run = zerocfg.current_run()
    names = ("RANK", "WORLD_SIZE", "OMP_NUM_THREADS", "GREETING", "HF_TOKEN", "DS_ACCELERATOR", "SLURM_PROCID")
    (run.output_dir / f"seen_{run.rank}.json").write_text(json.dumps({
        "env": {name: os.environ.get(name) for name in names}, "cwd": os.getcwd(), "argv": sys.argv,
        "stage": run.deepspeed_config["zero_optimization"]["stage"], "name": cfg.name}))
    print("rank", run.rank, "speaks", flush=True)
    if cfg.what == "fail" and run.rank == 1:
        raise ValueError("rank 1 is unwell")
    if cfg.what in ("fail", "sleep"):
        time.sleep(120)
    return run.rank + 10

if __name__ == "__main__":
    main()
"""
CONFIG = """
defaults: [zerocfg, _self_]
what: return
name: run_${now:%f}
hydra: {sweep: {dir: out}, launcher: {poll_seconds: 0.05}}
env: {GREETING: "it's $(touch PWNED)", HF_TOKEN: s3cr3t}
hardware: {name: cpu, detect: true, accelerator: cpu, gpus_per_node: 2}
"""


@pytest.fixture
def app(tmp_path: Path) -> Path:
    home = tmp_path / "an app's home"
    home.mkdir()
    (home / "app.py").write_text(APP)
    (home / "config.yaml").write_text(CONFIG)
    return home


def start(app: Path, *overrides: str, **environ: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "app.py", *overrides],
        cwd=app,
        env={**os.environ, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def left_behind(app: Path) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if JOB_TOKEN.encode() in (entry / "environ").read_bytes() and os.readlink(entry / "cwd").startswith(str(app)):
                found.append((entry / "cmdline").read_text())
        except OSError:
            continue
    return found


def wait_for(path: Path, text: str) -> None:
    deadline = time.monotonic() + 60
    while text not in (path.read_text() if path.exists() else ""):
        assert time.monotonic() < deadline, f"no {text!r} in {path}"
        time.sleep(0.05)


def test_each_rank_knows_its_place(app: Path) -> None:
    running = start(app, SLURM_PROCID="1", SLURM_NTASKS="2", SLURM_JOB_ID="5", OMP_NUM_THREADS="1")
    out, err = running.communicate(timeout=120)
    assert running.returncode == 0, err
    job = app / "out/0"
    seen = [json.loads((job / f"seen_{rank}.json").read_text()) for rank in (0, 1)]
    for rank, made in enumerate(seen):
        assert made["env"] == {
            "RANK": str(rank),
            "WORLD_SIZE": "2",
            "OMP_NUM_THREADS": "1",
            "GREETING": "it's $(touch PWNED)",
            "HF_TOKEN": "s3cr3t",
            "DS_ACCELERATOR": "cpu",
            "SLURM_PROCID": "1",
        }
        assert (made["cwd"], made["argv"], made["stage"]) == (str(app), [str(app / "app.py")], 3)
    # ${now:...} was read once, by the launcher
    assert seen[0]["name"] == seen[1]["name"]
    assert "rank 0 speaks\n" in out
    assert "rank 1 speaks" not in out
    assert (job / "rank_1.log").read_text() == "rank 1 speaks\n"
    assert "s3cr3t" not in "".join(path.read_text() for path in (job / "compiled").iterdir())
    assert list(app.rglob("PWNED")) == []
    assert left_behind(app) == []


def test_the_rank_that_failed_is_named(app: Path) -> None:
    running = start(app, "what=fail")
    out, err = running.communicate(timeout=120)
    assert running.returncode == 1
    assert "job 0 failed: rank 1 of 2: ValueError: rank 1 is unwell\n" in err
    assert err.count("Traceback (most recent call last)") == 1
    assert 'raise ValueError("rank 1 is unwell")' in err
    assert "ChildFailedError" not in out + err
    assert "rank 1 is unwell" in (app / "out/0/rank_1.log").read_text()
    assert left_behind(app) == []


def test_ctrl_c_stops_both_ranks(app: Path) -> None:
    running = start(app, "what=sleep")
    wait_for(app / "out/0/rank_1.log", "rank 1 speaks")
    os.killpg(running.pid, signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130, err
    assert "Ctrl-C, stopping all ranks" in out
    assert "Traceback" not in out + err
    assert left_behind(app) == []


def test_a_killed_launcher_takes_both_ranks_along(app: Path) -> None:
    running = start(app, "what=sleep")
    wait_for(app / "out/0/rank_1.log", "rank 1 speaks")
    running.kill()
    running.communicate(timeout=60)
    deadline = time.monotonic() + 40
    while left_behind(app) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left_behind(app) == []
