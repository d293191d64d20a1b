"""hydra.launcher as it was composed: what it names and says is checked, whatever Hydra took."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from tests.launch.empty_app import APP
from zerocfg.compose import compose
from zerocfg.diagnostics import Diagnostic
from zerocfg.launch.options import LocalOptions, OnInfeasible
from zerocfg.launch.read_options import decided, read_options
from zerocfg.launch.slurm_options import SlurmOptions
from zerocfg.schema.slurm import GpuRequest


def test_values_become_the_options_types() -> None:
    given = {"_target_": "x", "on_infeasible": "skip", "timeout_min": 5, "progress": "off", "max_parallel": 2, "python": sys.executable}
    expected = LocalOptions(on_infeasible=OnInfeasible.skip, timeout_min=5.0, progress=False, max_parallel=2, python=sys.executable)
    assert read_options(LocalOptions, given) == (expected, [])
    given = {"gpu_request": "gres", "account": 123, "setup": ["a"], "sbatch": {"mail_type": "END"}, "mem_gb": 1, "nodes": 2.0, "wait": 0}
    options, problems = read_options(SlurmOptions, given)
    assert problems == []
    assert options == SlurmOptions(
        gpu_request=GpuRequest.gres, account="123", setup=["a"], sbatch={"mail_type": "END"}, mem_gb=1.0, nodes=2, wait=False
    )
    assert read_options(SlurmOptions, {}) == (SlurmOptions(), [])


@pytest.mark.parametrize(
    ("kind", "name", "value", "message", "hint"),
    [
        (LocalOptions, "on_infeasible", "skp", "=skp is text, not one of fail, skip", "hydra.launcher.on_infeasible=skip"),
        (SlurmOptions, "on_infeasible", None, "=null is null, not one of fail, skip", "hydra.launcher.on_infeasible=fail or skip"),
        (SlurmOptions, "gpu_request", "gress", "=gress is text, not one of gpus_per_node, gres", "hydra.launcher.gpu_request=gres"),
        (LocalOptions, "timeout_min", "2h", "=2h is text, not a number", "hydra.launcher.timeout_min=NUMBER"),
        (SlurmOptions, "mem_gb", "64G", "=64G is text, not a number", "hydra.launcher.mem_gb=NUMBER"),
        (SlurmOptions, "nodes", 1.5, "=1.5 is a number, not a whole number", "hydra.launcher.nodes=1"),
        (SlurmOptions, "requeue", 5, "=5 is a number, not true or false", "hydra.launcher.requeue=true or false"),
        (SlurmOptions, "setup", "module", "=module is text, not a list of texts", "hydra.launcher.setup=[module]"),
        (SlurmOptions, "sbatch", 3, "=3 is a number, not a mapping", "hydra.launcher.sbatch={NAME: VALUE}"),
        (LocalOptions, "progress", "maybe", "=maybe is text, not true or false", "hydra.launcher.progress=true or false"),
        (LocalOptions, "timeout_min", 0, "=0.0 is not above 0", "hydra.launcher.timeout_min=null"),
        (LocalOptions, "timeout_min", math.inf, "=inf is not above 0", "hydra.launcher.timeout_min=null"),
        (LocalOptions, "max_parallel", 0, "=0 is not 1 or more", "hydra.launcher.max_parallel=null"),
        (LocalOptions, "poll_seconds", -1, "=-1.0 is not above 0 and at most 3600", "hydra.launcher.poll_seconds=0.2"),
        (SlurmOptions, "poll_seconds", math.nan, "=nan is not above 0 and at most 3600", "hydra.launcher.poll_seconds=2.0"),
        (LocalOptions, "python", "/no/python", "=/no/python is not a program on this machine", "hydra.launcher.python=null"),
        (SlurmOptions, "python", "", "= is not a program on the nodes", "hydra.launcher.python=null"),
        (SlurmOptions, "partion", 2, ": hydra/launcher=zerocfg_slurm has no such option", "hydra.launcher.partition=VALUE"),
        (LocalOptions, "max_paralel", 2, ": hydra/launcher=zerocfg_local has no such option", "hydra.launcher.max_parallel=VALUE"),
        (
            LocalOptions,
            "partition",
            "gpu",
            ": hydra/launcher=zerocfg_local has no such option, zerocfg_slurm has",
            "hydra/launcher=zerocfg_slurm",
        ),
        (
            SlurmOptions,
            "max_parallel",
            2,
            ": hydra/launcher=zerocfg_slurm has no such option, zerocfg_local has",
            "hydra.launcher.array_parallelism=VALUE, or hydra/launcher=zerocfg_local",
        ),
        (
            SlurmOptions,
            "exclude",
            "x",
            ": hydra/launcher=zerocfg_slurm has no such option",
            "hydra.launcher.sbatch.exclude=VALUE",
        ),
    ],
)
def test_what_an_option_does_not_take(kind: Any, name: str, value: object, message: str, hint: str) -> None:
    options, problems = read_options(kind, {"preflight": True, name: value})
    (problem,) = problems
    assert (problem.code, problem.path) == ("ZC715", f"hydra.launcher.{name}")
    assert problem.message.startswith(f"hydra.launcher.{name}{message}")
    assert problem.hint == hint
    # the rest can still be checked
    assert options == kind(preflight=True)


def test_a_program_of_another_machine_is_no_mistake_where_nothing_starts() -> None:
    for given, start in (({"python": "/no/python"}, False), ({"python": "/no/python", "dry_run": True}, True)):
        assert read_options(LocalOptions, given, start=start) == (LocalOptions(**given), [])


@pytest.mark.usefixtures("project")
def test_who_decided_and_what_the_option_means() -> None:
    cfg = compose(["++hydra.launcher.poll_seconds=x"], config_path="conf").cfg
    given: Any = OmegaConf.to_container(cfg.hydra.launcher)
    _, problems = read_options(SlurmOptions, given, cfg)
    assert {problem.path.rpartition(".")[2]: problem.decided_by for problem in problems} == {
        "mem_gb": "conf/hydra/launcher/mine.yaml:3",
        "poll_seconds": "command line: ++hydra.launcher.poll_seconds=x",
        "wait": "conf/config.yaml:6",
    }
    assert problems[0].detail == ("Main memory on each node, GiB; 0: all of it. At most one of the three mem_ fields.",)
    _, (problem,) = read_options(SlurmOptions, {"environment": "HF_TOKEN=sesame"})
    assert "sesame" not in problem.render()


@pytest.mark.usefixtures("project")
def test_who_chose_a_group_and_what_nobody_has_set() -> None:
    cfg = compose(["hydra.launcher.sbatch.begin=now"], config_path="conf").cfg
    told = {
        "hydra/launcher": "conf/config.yaml:3",
        "hydra.launcher.sbatch.hint": "conf/config.yaml:7",
        "hydra.launcher.sbatch.begin": "command line: hydra.launcher.sbatch.begin=now",
        "hydra.launcher.nodes": "",
        "train.steps": "",
    }
    problems = [Diagnostic(code="ZC715", message="m", path=path) for path in told]
    assert {problem.path: problem.decided_by for problem in decided(problems, cfg)} == told


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("conf/hydra/launcher").mkdir(parents=True)
    Path("conf/config.yaml").write_text(CONFIG)
    Path("conf/hydra/launcher/mine.yaml").write_text("defaults: [zerocfg_slurm]\n\nmem_gb: much\n")


CONFIG = """\
defaults:
  - zerocfg
  - override hydra/launcher: mine
hydra:
  launcher:
    wait: perhaps
    sbatch: {hint: nomultithread}
"""


@pytest.mark.integration
def test_all_that_is_wrong_is_told_before_anything_starts(tmp_path: Path) -> None:
    """Hydra takes a name with and without a plus, and any value."""
    (tmp_path / "app.py").write_text(APP)
    wrong = (
        "hydra.launcher.on_infeasible=skp",
        "+hydra.launcher.partition=x",
        "hydra.launcher.max_paralel=2",
        "hydra.launcher.timeout_min=2h",
    )
    command = [sys.executable, "app.py", "-m", "hydra/launcher=zerocfg_local", "hydra.sweep.dir=out", *wrong]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("error[ZC715]") == 4
    assert "  decided by: command line: +hydra.launcher.partition=x\n  try: hydra/launcher=zerocfg_slurm\n" in done.stderr
    assert "\n4 errors\n\nnothing was started\n" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()
