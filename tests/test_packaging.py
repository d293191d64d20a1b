"""Makefile, constraints.txt and pyproject.toml agree with each other."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ASKED = [Requirement(text) for text in [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]]]


def pins(python: str) -> dict[str, str]:
    """Name -> version that constraints.txt takes on this Python."""
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and not line.startswith("#")]
    found: dict[str, str] = {}
    for requirement in map(Requirement, lines):
        if requirement.marker is None or requirement.marker.evaluate({"python_version": python}):
            (pin,) = requirement.specifier
            assert pin.operator == "==", requirement
            name = canonicalize_name(requirement.name)
            assert name not in found, f"{name} is pinned twice on Python {python}"
            found[name] = pin.version
    return found


@pytest.mark.parametrize("python", ["3.10", "3.11", "3.12", "3.13"])
def test_every_direct_dependency_has_a_tested_version_within_its_range(python: str) -> None:
    tested = pins(python)
    wrong = [str(asked) for asked in ASKED if not asked.specifier.contains(tested.get(canonicalize_name(asked.name), "0"))]
    assert wrong == []


def test_torch_and_deepspeed_are_the_releases_that_the_key_table_was_read_from() -> None:
    assert pins("3.11")["torch"] == "2.13.0"
    assert pins("3.11")["deepspeed"] == "0.19.8"


def make(*words: str) -> str:
    # the tests may themselves run under make, which would make this one a sub-make
    environ = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    return subprocess.run(["make", *words], cwd=ROOT, env=environ, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A finished environment, as far as make can see."""
    venv = tmp_path / "venv"
    venv.mkdir()
    (venv / ".installed").touch()
    return venv


def test_a_bare_checkout_installs_with_the_tested_versions_first(tmp_path: Path) -> None:
    steps = make("--dry-run", "train", f"VENV={tmp_path}/venv").splitlines()
    install = next(i for i, step in enumerate(steps) if "pip install" in step)
    assert "--constraint constraints.txt --editable '.[dev]'" in steps[install]
    assert any("-m venv" in step for step in steps[:install])
    assert steps[-1].endswith("python train.py ")


def test_a_second_call_installs_nothing(installed: Path) -> None:
    steps = make("--dry-run", "test", f"VENV={installed}").splitlines()
    assert [step.removeprefix(f"{installed}/bin/") for step in steps] == [
        "ruff check .",
        "ruff format --check .",
        "mypy",
        "python -m pytest -n 2 ",
    ]


def test_a_changed_constraint_installs_again(installed: Path) -> None:
    assert "pip install" in make("--dry-run", "test", f"VENV={installed}", "--what-if=constraints.txt")


def test_help_names_every_target() -> None:
    text = (ROOT / "Makefile").read_text()
    (line,) = re.findall(r"^\.PHONY: (.*)$", text, flags=re.MULTILINE)
    shown = re.findall(r"[\w-]+", make("help"))
    assert set(line.split()) - {"help"} <= set(shown)


def test_ci_runs_the_tests_that_make_runs() -> None:
    script = ROOT / ".ci" / "run"
    assert script.read_text().splitlines()[-1] == "exec make test"
    bash = shutil.which("bash")
    assert bash
    subprocess.run([bash, "-n", script], check=True)
    assert script.stat().st_mode & 0o111
