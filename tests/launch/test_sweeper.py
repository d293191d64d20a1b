"""hydra/sweeper=zerocfg: the launcher composes the jobs, so a sweep's mistakes come in one report; all else is Hydra's basic sweeper."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hydra.core.plugins import Plugins
from omegaconf import OmegaConf

pytestmark = pytest.mark.integration

APP = """
import hydra

@hydra.main(version_base=None, config_path=".", config_name="config")
def main(cfg):
    print("ran", cfg.train.steps)

if __name__ == "__main__":
    main()
"""
CONFIG = """
defaults: [zerocfg, _self_, override hardware: cpu, override model: none, override precision: fp32]
hydra: {sweep: {dir: out}}
"""


def run(folder: Path, *overrides: str, config: str = CONFIG) -> subprocess.CompletedProcess[str]:
    (folder / "app.py").write_text(APP)
    (folder / "config.yaml").write_text(config)
    return subprocess.run([sys.executable, "app.py", *overrides], cwd=folder, capture_output=True, text=True, timeout=60, check=False)


def test_what_cannot_be_composed_is_in_the_report_with_what_cannot_be_compiled(tmp_path: Path) -> None:
    done = run(tmp_path, "-m", "parallelism=zero1,zero9", "optimizer.lrr=1,2")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("error[ZC111] optimizer.lrr does not exist\n") == 2
    assert done.stderr.count("error[ZC110] parallelism=zero9: parallelism has no option zero9\n") == 1
    assert "\nnothing was started (4 jobs)\n" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_point_that_cannot_be_composed_can_be_left_out(tmp_path: Path) -> None:
    done = run(tmp_path, "-m", "parallelism=zero1,zero9,zero2", "hydra.launcher.on_infeasible=skip", "hydra.launcher.dry_run=true")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("error[") == 1
    assert sorted(path.parents[1].name for path in (tmp_path / "out").glob("*/compiled/plan.json")) == ["0", "2"]


@pytest.mark.parametrize(("folder", "why"), [("file", "File exists"), ("file/below", "Not a directory")])
def test_a_folder_that_cannot_be_made(tmp_path: Path, folder: str, why: str) -> None:
    (tmp_path / "file").touch()
    done = run(tmp_path, f"hydra.sweep.dir={folder}")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error[ZC755] {folder} cannot be written: {why}\n  try: hydra.sweep.dir=DIR\n")
    assert "Traceback" not in done.stderr


BASIC = "hydra/sweeper=basic"


@pytest.mark.parametrize("choice", [(), ("hydra.sweeper.max_batch_size=1",), (BASIC,), (BASIC, "hydra.sweeper.max_batch_size=1")])
def test_a_sweep_of_which_no_point_can_run_fails(tmp_path: Path, choice: tuple[str, ...]) -> None:
    done = run(tmp_path, "-m", "train.steps=0,-1", "hydra.launcher.on_infeasible=skip", *choice)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("error[ZC221]") == 2
    assert "\nnothing was started: no job can run, and hydra.launcher.on_infeasible=skip leaves such jobs out\n" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("choice", [(), (BASIC,)])
@pytest.mark.parametrize("steps", ["0,-1,2", "2,0,-1"])
def test_one_point_that_can_run_is_enough(tmp_path: Path, choice: tuple[str, ...], steps: str) -> None:
    batches = "{max_batch_size: 1, params: {batch.micro_batch_size: '1,0'}}"
    config = CONFIG.replace("hydra: {", f"hydra: {{sweeper: {batches}, launcher: {{dry_run: true, on_infeasible: skip}}, ")
    done = run(tmp_path, "-m", f"train.steps={steps}", *choice, config=config)
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "out").glob("*/compiled/plan.json"))) == 1


@pytest.mark.parametrize("choice", ["hydra/sweeper=basic", "hydra/launcher=basic"])
def test_with_hydras_own_sweeper_or_launcher_hydra_composes_first(tmp_path: Path, choice: str) -> None:
    done = run(tmp_path, "-m", "parallelism=zero1,zero9", choice)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("In 'zerocfg': Could not find 'parallelism/zero9'")


def test_a_sweep_that_hydra_does_not_know_is_a_mistake_without_a_stack(tmp_path: Path) -> None:
    done = run(tmp_path, "-m", "optimizer.lr=interval(0,1)")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("hydra/sweeper=zerocfg: BasicSweeper does not support sweep type : INTERVAL_SWEEP\n")
    assert "Traceback" not in done.stderr


def test_params_and_batches_are_hydras(tmp_path: Path) -> None:
    sweeper = "sweeper: {max_batch_size: 2, params: {train.steps: '1,2', optimizer.lr: '0.1,0.2'}}"
    config = CONFIG.replace("hydra: {", f"hydra: {{{sweeper}, launcher: {{dry_run: true}}, ")
    done = run(tmp_path, config=config)
    assert done.returncode == 0, done.stderr
    told = {path.parents[1].name: path.read_text().split() for path in (tmp_path / "out").glob("*/.hydra/overrides.yaml")}
    assert told == {
        str(number): ["-", f"train.steps={steps}", "-", f"optimizer.lr={lr}"]
        for number, (steps, lr) in enumerate((s, lr) for s in (1, 2) for lr in (0.1, 0.2))
    }


@pytest.mark.parametrize(("launcher", "composed"), [(SimpleNamespace(composes_first=True), []), (SimpleNamespace(), [["a=1"], ["a=2"]])])
def test_another_launchers_jobs_are_composed(launcher: SimpleNamespace, composed: list[list[str]]) -> None:
    asked: list[list[str]] = []
    # as Hydra has it: each of its scans for plugins makes the classes anew
    cls: Any = Plugins.instance().class_name_to_class["hydra_plugins.zerocfg_sweeper.ZerocfgSweeper"]
    sweeper = cls(max_batch_size=None)
    sweeper.launcher, sweeper.config = launcher, OmegaConf.create()
    loader = SimpleNamespace(load_sweep_config=lambda master_config, sweep_overrides: asked.append(sweep_overrides))
    sweeper.hydra_context = SimpleNamespace(config_loader=loader)
    sweeper.validate_batch_is_legal([["a=1"], ["a=2"]])
    assert asked == composed
