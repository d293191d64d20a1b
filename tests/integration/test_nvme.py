"""Each job has a folder of its own below offload.nvme_path, which goes with it: two ranks under torchrun, without DeepSpeed's swapping."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration
APP = """
import json, os, signal, time
from pathlib import Path
import hydra, zerocfg

@hydra.main(version_base=None, config_path=".", config_name="config")
def main(cfg):
    run = zerocfg.current_run()
    folder = Path(run.deepspeed_config["zero_optimization"]["offload_optimizer"]["nvme_path"])
    (folder / f"rank{run.rank}.swp").write_bytes(b"states")
    (run.output_dir / f"seen_{run.rank}").write_text(f"{folder} {sorted(p.name for p in folder.parent.iterdir())}")
    while not all((run.output_dir / f"seen_{rank}").exists() for rank in (0, 1)):
        time.sleep(0.02)  # the end of one rank ends the other, however far it is
    if cfg.what == "fail":
        raise ValueError("unwell")
    if cfg.what == "sleep":
        time.sleep(120)
    if cfg.what == "kill" and run.rank == 0:
        os.kill(os.getppid(), signal.SIGKILL)
        signal.pause()

if __name__ == "__main__":
    main()
"""
CONFIG = """
defaults: [zerocfg, _self_]
what: return
hydra: {sweep: {dir: out}, launcher: {poll_seconds: 0.05}}
hardware: {name: cpu, detect: true, accelerator: cpu, gpus_per_node: 2}
parallelism: {stage: 3}
offload: {optimizer: nvme, nvme_path: disk}
"""
SCRIPT = """
import json, os, sys
from pathlib import Path
folder = Path(json.load(open(sys.argv[1]))["zero_optimization"]["offload_optimizer"]["nvme_path"])
print(folder, folder.is_dir(), flush=True)
"""


@pytest.fixture
def app(tmp_path: Path) -> Path:
    home = tmp_path / "some where"
    (home / "disk").mkdir(parents=True)
    (home / "app.py").write_text(APP)
    (home / "script.py").write_text(SCRIPT)
    (home / "config.yaml").write_text(CONFIG.replace("nvme_path: disk", f"nvme_path: '{home}/disk'"))
    return home


def run(app: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], cwd=app, capture_output=True, text=True, timeout=200, check=False)


def left(app: Path) -> list[str]:
    return sorted(path.name for path in (app / "disk").iterdir() if path.name != ".zerocfg.lock")


def compiled(app: Path, job: str) -> str:
    stored = json.loads((app / f"out/{job}/compiled/ds_config.json").read_text())
    path: str = stored["zero_optimization"]["offload_optimizer"]["nvme_path"]
    return path


def test_each_job_has_its_own_until_its_end(app: Path) -> None:
    done = run(app, "app.py", "what=return,fail")
    assert done.returncode == 1
    assert "ValueError: unwell" in done.stderr
    seen = [(app / f"out/{job}/seen_{rank}").read_text().split(" [")[0] for job in (0, 1) for rank in (0, 1)]
    folders = [compiled(app, job) for job in ("0", "1")]
    # what is written is what ran
    assert seen == [folders[0], folders[0], folders[1], folders[1]]
    assert folders[0] != folders[1]
    assert {str(Path(folder).parent) for folder in folders} == {f"{app}/disk"}
    assert left(app) == []
    # by hand, from elsewhere
    again = subprocess.run([app / "out/0/compiled/launch.sh"], cwd="/", capture_output=True, text=True, timeout=200, check=False)
    assert again.returncode == 0, again.stderr
    assert left(app) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_launcher_that_is_stopped(app: Path, number: int) -> None:
    """Ctrl-C reaches torchrun; the end of a launcher that was killed does too."""
    running = subprocess.Popen(
        [sys.executable, "app.py", "what=sleep"], cwd=app, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    deadline = time.monotonic() + 120
    while not all((app / f"out/0/seen_{rank}").exists() for rank in (0, 1)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert len(left(app)) == 1
    os.kill(running.pid, number)
    running.wait(timeout=120)
    while left(app) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left(app) == []


def test_what_a_killed_job_leaves_goes_with_the_next(app: Path) -> None:
    done = run(app, "app.py", "what=kill")
    assert done.returncode == 1
    assert [f"{app}/disk/{name}" for name in left(app)] == [compiled(app, "0")]
    done = run(app, "app.py", "hydra.sweep.dir=other")
    assert done.returncode == 0, done.stderr
    assert left(app) == []
    # it was gone before the ranks of the other started
    folder, _, names = (app / "other/0/seen_0").read_text().partition(" [")
    assert names == f"'.zerocfg.lock', '{Path(folder).name}']"


def test_a_script_of_zerocfg_launch(app: Path) -> None:
    words = ["-m", "zerocfg", "launch", "--config-path", str(app), "--config-name", "config", "--out", "plain"]
    done = run(app, *words, "--", "script.py", "{ds_config}")
    assert done.returncode == 0, done.stdout + done.stderr
    stored = json.loads((app / "plain/compiled/ds_config.json").read_text())
    assert f"{stored['zero_optimization']['offload_optimizer']['nvme_path']} True\n" in done.stdout
    assert left(app) == []


def test_a_disk_that_is_not_there(app: Path) -> None:
    """Found before anything is started here; on another node by its own start, which says so."""
    assert run(app, "app.py", "hydra.launcher.dry_run=true").returncode == 0
    shutil.rmtree(app / "disk")
    done = run(app, "app.py", "hydra.sweep.dir=other")
    assert done.returncode == 1
    assert f"error[ZC712] offload.nvme_path={app}/disk: it does not exist" in done.stderr
    assert "nothing was started" in done.stderr
    assert not (app / "other").exists()
    by_hand = subprocess.run([app / "out/0/compiled/launch.sh"], cwd=app, capture_output=True, text=True, timeout=200, check=False)
    assert by_hand.returncode == 1
    assert f"on {os.uname().nodename}:\nerror[ZC712] offload.nvme_path={app}/disk: No such file or directory" in by_hand.stderr
    assert "Traceback" not in by_hand.stderr
    refused = app / f"out/0/.zerocfg/results/refused_{os.uname().nodename}.txt"
    assert "error[ZC712]" in refused.read_text()
