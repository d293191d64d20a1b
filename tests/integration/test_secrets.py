"""A secret of the config's env reaches the ranks and no file or report of the run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration
SECRET = "s3cr3t-v4lue"
SCRIPT = """\
import os
import hydra

@hydra.main(version_base="1.3", config_path=None, config_name="zerocfg")
def main(cfg):
    print("token of", len(os.environ["HF_TOKEN"]), "letters")
    return float(cfg.optimizer.lr)

main()
"""
RUN = ("hardware=cpu", "hydra.launcher.progress=false", "hydra.sweep.dir=out", f"+env.HF_TOKEN={SECRET}")


def launch(home: Path, *overrides: str, **environ: str) -> subprocess.CompletedProcess[str]:
    (home / "app.py").write_text(SCRIPT)
    env = {**os.environ, **environ}
    return subprocess.run([sys.executable, "app.py", *RUN, *overrides], cwd=home, capture_output=True, text=True, timeout=240, env=env)


def holding(home: Path) -> set[str]:
    files = [path for path in (home / "out").rglob("*") if path.is_file()]
    return {path.relative_to(home / "out").as_posix() for path in files if SECRET.encode() in path.read_bytes()}


def test_everything_that_a_run_writes(tmp_path: Path) -> None:
    done = launch(tmp_path, "hydra.launcher.preflight=true")
    assert done.returncode == 0, done.stderr
    assert f"token of {len(SECRET)} letters" in (tmp_path / "out/0/rank_0.log").read_text()
    # the payload is for the ranks alone
    assert holding(tmp_path) == {"0/.zerocfg/payload.pkl"}
    assert (tmp_path / "out/0/.zerocfg/payload.pkl").stat().st_mode & 0o777 == 0o600
    assert SECRET not in done.stdout + done.stderr
    assert "HF_TOKEN: ${oc.env:HF_TOKEN}" in (tmp_path / "out/0/.hydra/config.yaml").read_text()
    for private in (*(tmp_path / "out").rglob("*.sh"), tmp_path / "out/0/.zerocfg/submitit"):
        assert private.stat().st_mode & 0o077 == 0, private


def test_a_secret_in_a_folders_name_is_refused_and_not_left_behind(tmp_path: Path) -> None:
    """Hydra's sweeper writes the command line to multirun.yaml before the launcher is asked; the folder was there before."""
    (tmp_path / "out").mkdir()
    done = launch(tmp_path, "optimizer.lr=1e-3,2e-3", "hydra.sweep.subdir='${hydra.job.override_dirname}'")
    assert done.returncode == 1
    assert "error[ZC814] the job's folder would be named after +env.HF_TOKEN, with its value" in done.stderr
    assert SECRET not in done.stdout + done.stderr
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["multirun.yaml"]
    assert holding(tmp_path) == set()
    assert "env.HF_TOKEN=(not written: looks like a secret)" in (tmp_path / "out/multirun.yaml").read_text()


def test_a_sweep_that_is_refused(tmp_path: Path) -> None:
    done = launch(tmp_path, "optimizer.lr=1e-3,2e-3", "batch.micro_batch_size=0")
    assert done.returncode == 1
    assert "ZC202" in done.stderr
    assert SECRET not in done.stdout + done.stderr
