"""Secrets of a SLURM job, wherever they were given, reach its ranks and no file, script or report."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .cluster import SlurmCluster

pytestmark = [pytest.mark.slurm, pytest.mark.integration]
# by the shell, env, hydra.launcher.environment, hydra.job.env_set, env by interpolation, and one with all that a shell would read
VALUES = {
    "A_TOKEN": "vAAAA-exported",
    "B_API_KEY": "vBBBB-env",
    "C_PASSWORD": "vCCCC-launcher",
    "D_SECRET": "vDDDD-set",
    "E_TOKEN": "vEEEE-other",
    "F_TOKEN": "vFFFF 'q' $x",
}
APP = f"""
import json, os
import hydra

@hydra.main(version_base=None, config_path=None, config_name="zerocfg")
def main(cfg):
    print(json.dumps({{name: os.environ.get(name) == value for name, value in {VALUES!r}.items()}}))
    return 1.5

main()
"""
OVERRIDES = (
    "hardware=cpu",
    "hardware.gpus_per_node=1",
    "hydra/launcher=zerocfg_slurm",
    "hydra.launcher.poll_seconds=0.3",
    "hydra.launcher.cpus_per_task=1",
    "hydra.sweep.dir=out",
    "+env.B_API_KEY=vBBBB-env",
    "+hydra.launcher.environment.C_PASSWORD=vCCCC-launcher",
    "+hydra.job.env_set.D_SECRET=vDDDD-set",
    "+env.E_TOKEN='${oc.env:E_TOKEN}'",
    "+env.F_TOKEN='vFFFF \\'q\\' $x'",
)


def run(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    given = {name: VALUES[name] for name in ("A_TOKEN", "E_TOKEN")}
    return subprocess.run(
        [sys.executable, *words], cwd=home, env={**os.environ, **given}, capture_output=True, text=True, timeout=240, check=False
    )


def holding(folder: Path) -> set[str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)) for path in files if any(value[:5].encode() in path.read_bytes() for value in VALUES.values())}


def test_a_sweep(slurm: SlurmCluster, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    done = run(tmp_path, "app.py", "-m", *OVERRIDES, "optimizer.lr=1e-3,2e-3")
    assert done.returncode == 0, done.stderr
    for number in range(2):
        assert (tmp_path / f"out/{number}/rank_0.log").read_text().count("true") == len(VALUES)
    assert holding(tmp_path / "out") == {f"{number}/.zerocfg/payload.pkl" for number in range(2)}
    (script,) = (tmp_path / "out/slurm").glob("*_submission.sh")
    assert all(
        path.stat().st_mode & 0o077 == 0 for path in (script, *(tmp_path / "out").rglob("*.sh"), *(tmp_path / "out").rglob("payload.pkl"))
    )
    told = run(tmp_path, "-m", "zerocfg", "jobs", "out")
    dry = run(tmp_path, "app.py", *OVERRIDES, "hydra.sweep.dir=dry", "hydra.launcher.dry_run=true")
    assert (told.returncode, dry.returncode) == (0, 0), dry.stderr
    assert holding(tmp_path / "dry") == {"0/.zerocfg/payload.pkl"}
    for said in (done, told, dry):
        assert not any(value[:5] in said.stdout + said.stderr for value in VALUES.values())


def test_lines_and_options_that_would_write_one_are_refused(slurm: SlurmCluster, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    bad = ("hydra.launcher.setup=['export A_TOKEN=vAAAA-exported']", "+hydra.launcher.sbatch.export='ALL,B_API_KEY=vBBBB-env'")
    done = run(tmp_path, "app.py", *OVERRIDES, *bad)
    assert done.returncode == 1
    assert "error[ZC814] hydra.launcher.setup gives A_TOKEN a value, which would be written to the batch script" in done.stderr
    assert "error[ZC814] hydra.launcher.sbatch.export gives B_API_KEY a value" in done.stderr
    assert "try: +hydra.launcher.environment.A_TOKEN=VALUE" in done.stderr
    assert not any(value[:5] in done.stdout + done.stderr for value in VALUES.values())
    assert not (tmp_path / "out").exists()
