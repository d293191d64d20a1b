"""The image's recipe: what hadolint says, and what it cannot know."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "docker" / "Dockerfile"


def instructions() -> list[tuple[str, str]]:
    """(instruction, arguments), continued lines joined, comments left out."""
    lines = [line for line in DOCKERFILE.read_text().splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in joined.splitlines() if line.strip()]


def all_of(name: str) -> list[str]:
    return [arguments for instruction, arguments in instructions() if instruction == name]


def test_hadolint_finds_nothing() -> None:
    hadolint = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which("hadolint")
    assert hadolint, "the dev extra brings it: pip install -e '.[dev]'"
    done = subprocess.run([hadolint, "--no-color", str(DOCKERFILE)], capture_output=True, text=True)
    assert (done.stdout + done.stderr, done.returncode) == ("", 0)


def test_hadolint_is_awake() -> None:
    hadolint = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which("hadolint")
    done = subprocess.run([str(hadolint), "--no-color", "-"], input="FROM debian\nRUN cd /x && sudo ls\n", capture_output=True, text=True)
    assert "DL3006" in done.stdout
    assert done.returncode == 1


def constraint(name: str) -> str:
    found = re.search(rf"^{name}==([^;\s]+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert found
    return found[1]


def test_the_defaults_are_the_tested_versions() -> None:
    defaults = dict(argument.partition("=")[::2] for argument in all_of("ARG"))
    assert {name: defaults[name.upper()] for name in ("torch", "deepspeed", "ninja")} == {
        name: constraint(name) for name in ("torch", "deepspeed", "ninja")
    }
    assert set(defaults) == {"CUDA", "TORCH", "DEEPSPEED", "NINJA"}
    # a build argument must be able to differ from the constraint
    (install,) = [run for run in all_of("RUN") if '"torch==${TORCH}"' in run]
    dropped = re.search(r"/\^\((.*?)\)==/d", install)
    assert dropped
    assert set(dropped[1].split("|")) == {"torch", "deepspeed", "ninja"}


def test_it_runs_as_a_user_who_cannot_log_in() -> None:
    assert all_of("USER") == ["10001:10001"]
    assert [name for name, _ in instructions()].index("USER") > max(i for i, (name, _) in enumerate(instructions()) if name == "RUN")
    (user,) = [run for run in all_of("RUN") if "useradd" in run]
    assert "--shell /usr/sbin/nologin" in user
    assert "--uid 10001" in user


@pytest.mark.parametrize("word", ["ssh", "passwd", "password", "EXPOSE", "sudo", "ENTRYPOINT", "HEALTHCHECK", "http", "TOKEN", "SECRET"])
def test_nothing_listens_and_nothing_is_secret(word: str) -> None:
    assert word.lower() not in " ".join(f"{name} {arguments}" for name, arguments in instructions()).lower()


def test_all_that_is_copied_exists_and_all_that_the_build_needs_is_copied() -> None:
    sources = [source for copy in all_of("COPY") for source in copy.split()[:-1]]
    assert [source for source in sources if not (ROOT / source).exists()] == []
    ignore = (ROOT / "docker" / "Dockerfile.dockerignore").read_text().splitlines()
    assert {line[1:] for line in ignore if line.startswith("!")} == set(sources)
    # what the wheel is made of
    assert {"pyproject.toml", "README.md", "LICENSE", "src", "conf", "hydra_plugins", "train.py"} <= set(sources)


def test_cuda_is_that_of_the_wheel() -> None:
    """torch 2.11 and later come with CUDA 13 (a nvcc of another major version builds no op for it)."""
    cuda = next(argument.partition("=")[2] for argument in all_of("ARG") if argument.startswith("CUDA="))
    major, minor = constraint("torch").split(".")[:2]
    assert (int(major), int(minor)) >= (2, 11)
    assert cuda.startswith("13.")
    assert all_of("FROM") == ["nvidia/cuda:${CUDA}-devel-ubuntu24.04"]
