"""Checks before the start: each code fails once, its correction is clean."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zerocfg.compiler import compile_run
from zerocfg.diagnostics import Severity
from zerocfg.facts import Detected, DetectedGpu
from zerocfg.launch.preflight import (
    check_container,
    check_folder_name,
    check_folders,
    check_machine,
    check_nesting,
    check_packages,
    check_requeues,
    same_gpu,
)
from zerocfg.plan import Plan

Make = Callable[..., dict[str, Any]]
A100 = "NVIDIA A100-SXM4-80GB"


def machine(*names: str, reason: str = "") -> Detected:
    gpus = tuple(
        DetectedGpu(index=i, uuid=f"GPU-{i}", name=n, memory_bytes=80 << 30, compute_capability=(8, 0)) for i, n in enumerate(names)
    )
    return Detected(cpus=8, host_memory_bytes=1 << 34, numa_nodes=1, gpus=gpus, reason=reason, host="box")


@pytest.fixture
def plan(container: Make) -> Callable[..., Plan]:
    return lambda **changes: compile_run(container({k.replace("__", "."): v for k, v in changes.items()})).plan


def test_too_few_gpus(plan: Callable[..., Plan]) -> None:
    found = list(check_machine(plan(), machine(A100, A100, reason="CUDA_VISIBLE_DEVICES hides 6"), {"CUDA_VISIBLE_DEVICES": "4,5"}))
    assert [d.code for d in found] == ["ZC701"]
    assert found[0].render() == (
        "error[ZC701] the run is for 8 GPUs a node (A100-SXM4-80GB), this machine has 2\n"
        "  found on box: 2 x NVIDIA A100-SXM4-80GB\n"
        "  because: CUDA_VISIBLE_DEVICES hides 6\n"
        "  CUDA_VISIBLE_DEVICES='4,5'\n"
        "  try: hardware=auto, hardware.gpus_per_node=2, hardware=cpu; `zerocfg compile` needs no GPU"
    )


def test_no_gpu_at_all(plan: Callable[..., Plan]) -> None:
    (found,) = check_machine(plan(), machine(reason="no NVIDIA driver is installed"), {})
    assert found.detail == ("found on box: none", "because: no NVIDIA driver is installed", "CUDA_VISIBLE_DEVICES is not set")
    assert "gpus_per_node" not in found.hint


def test_enough_gpus(plan: Callable[..., Plan]) -> None:
    assert list(check_machine(plan(), machine(*[A100] * 8), {})) == []
    assert list(check_machine(plan(hardware__gpus_per_node=2), machine(*[A100] * 8), {})) == []


def test_cpu_needs_none(plan: Callable[..., Plan]) -> None:
    cpu = plan(hardware__accelerator="cpu", hardware__gpus_per_node=2, precision__dtype="fp32")
    assert list(check_machine(cpu, machine(), {})) == []


def test_several_nodes(plan: Callable[..., Plan]) -> None:
    found = list(check_machine(plan(hardware__num_nodes=2), machine(*[A100] * 8), {}))
    assert [(d.code, d.path) for d in found] == [("ZC702", "hardware.num_nodes")]
    assert "SLURM" in found[0].hint


def test_other_gpus(plan: Callable[..., Plan]) -> None:
    (found,) = check_machine(plan(), machine(*["NVIDIA H200"] * 8), {})
    assert (found.code, found.severity) == ("ZC703", Severity.WARNING)
    assert "A100-SXM4-80GB" in found.message
    assert "NVIDIA H200" in found.message


@pytest.mark.parametrize(
    ("named", "found", "same"),
    [
        ("A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB", True),
        ("A100-SXM4-80GB", "NVIDIA A100-SXM4-40GB", False),
        ("A10", "NVIDIA A100-SXM4-80GB", False),
        ("H200-SXM-141GB", "NVIDIA H200", True),
        ("H100-SXM5-80GB", "NVIDIA H100 80GB HBM3", True),
        ("RTX 4090", "NVIDIA GeForce RTX 4090", True),
        ("Unheard Of 1", "NVIDIA Unheard of 1", True),
    ],
)
def test_same_gpu(named: str, found: str, same: bool) -> None:
    assert same_gpu(named, found) is same


@pytest.mark.parametrize(
    ("environ", "refused"),
    [
        ({"WORLD_SIZE": "2", "RANK": "0"}, True),
        ({"WORLD_SIZE": "1", "RANK": "0", "TORCHELASTIC_RUN_ID": "none"}, True),
        ({"RANK": "3"}, True),
        ({"WORLD_SIZE": "1", "RANK": "0"}, False),
        ({"SLURM_NTASKS": "8", "SLURM_PROCID": "0"}, False),
        ({}, False),
    ],
)
def test_started_as_a_rank(environ: dict[str, str], refused: bool) -> None:
    assert [d.code for d in check_nesting(environ)] == (["ZC704"] if refused else [])


def test_a_folder_that_is_named_after_a_secret() -> None:
    """hydra.sweep.subdir=${hydra.job.override_dirname}."""
    overrides = ["+env.HF_TOKEN=s3cr3t", "a=1"]
    (problem,) = check_folder_name("/runs/+env.HF_TOKEN=s3cr3t,a=1", overrides)
    assert (problem.code, problem.path) == ("ZC814", "hydra.sweep.subdir")
    assert "s3cr3t" not in problem.render()
    assert list(check_folder_name("/runs/a=1", overrides)) == []
    assert list(check_folder_name("/runs/+env.A=b", ["+env.A=b"])) == []


def test_folders() -> None:
    a, b = Path("/x/a"), Path("/x/b")
    assert list(check_folders([a, b])) == []
    (same,) = check_folders([a, b, a])
    assert (same.code, "jobs 0, 2" in same.message) == ("ZC705", True)
    (tag,) = check_folders([Path("/x/run_%j")])
    assert tag.code == "ZC708"


@pytest.mark.parametrize(
    ("kind", "present", "codes"),
    [
        ("docker", {"docker"}, []),
        ("docker", set(), ["ZC745"]),
        ("apptainer", {"docker"}, ["ZC745"]),
        ("pyxis", {"srun"}, ["ZC744"]),
    ],
)
def test_what_starts_a_container(plan: Callable[..., Plan], kind: str, present: set[str], codes: list[str]) -> None:
    made = plan(container__kind=kind, container__image="image")
    problems = list(check_container(made, lambda name: f"/usr/bin/{name}" if name in present else None))
    assert [problem.code for problem in problems] == codes
    assert all(problem.hint for problem in problems)


def test_without_a_container_no_program_is_looked_for(plan: Callable[..., Plan]) -> None:
    assert list(check_container(plan(), lambda name: None)) == []


@pytest.mark.parametrize(("there", "kind", "refused"), [(set(), "none", True), ({"wandb"}, "none", False), (set(), "docker", False)])
def test_packages(plan: Callable[..., Plan], there: set[str], kind: str, refused: bool) -> None:
    """In a container the ranks have another Python than this one."""
    changes = {"container__kind": kind, "container__image": "image"} if kind != "none" else {}
    made = plan(train__trackers=["tensorboard", "wandb"], **changes)
    found = [problem.render() for problem in check_packages(made, lambda name: "1.0" if name in there else "")]
    report = (
        "error[ZC711] train.trackers=[tensorboard,wandb], but the package wandb is not installed\n"
        "  try: pip install wandb, or train.trackers=[tensorboard]"
    )
    assert found == ([report] if refused else [])
    assert list(check_packages(plan(), lambda name: "")) == []


def test_a_number_of_requeues_without_a_queue(plan: Callable[..., Plan]) -> None:
    (found,) = check_requeues(plan(checkpoint__every_steps=5, checkpoint__max_requeues=3))
    assert (found.code, found.severity, found.path) == ("ZC714", Severity.NOTE, "checkpoint.max_requeues")
    assert "saves and ends with status 85" in found.message
    assert list(check_requeues(plan(checkpoint__every_steps=5))) == []
