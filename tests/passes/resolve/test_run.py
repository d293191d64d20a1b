from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from zerocfg.passes.resolve.hardware import resolve_hardware
from zerocfg.passes.resolve.run import resolve_torchrun, resolve_train
from zerocfg.plan import TorchrunPlan, TrainPlan
from zerocfg.schema.hardware import HardwareConfig
from zerocfg.schema.run import TorchrunConfig, TrainConfig
from zerocfg.schema.types import Accelerator, NumaBinding, Profile

GPUS = resolve_hardware(
    HardwareConfig(accelerator=Accelerator.cuda, gpus_per_node=4, memory_bytes=1, compute_capability="8.0", numa_nodes=1), None
).value
COMMON: dict[str, Any] = {
    "max_restarts": 0,
    "monitor_interval": 0.0,
    "rdzv_port": 0,
    "rdzv_timeout": 900,
    "signals_to_handle": ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"),
    "shutdown_timeout": 30,
    "numa_binding": "none",
}


def test_time_to_save_before_the_end() -> None:
    saving = resolve_torchrun(TorchrunConfig(), GPUS, saves=True)
    assert saving.value == TorchrunPlan(**{**COMMON, "shutdown_timeout": 600})
    assert saving.reasons["shutdown_timeout"].text == "time for a step and a checkpoint"
    asked_for = resolve_torchrun(TorchrunConfig(shutdown_timeout=45), GPUS, saves=True)
    assert asked_for.value.shutdown_timeout == 45
    assert asked_for.reasons["shutdown_timeout"].config_path == "torchrun.shutdown_timeout"


@pytest.mark.parametrize(
    ("config", "hardware", "expected", "why"),
    [
        ({}, {}, {}, "one NUMA node, or no GPU to bind to"),
        ({}, {"numa_nodes": 2}, {"numa_binding": "node"}, "2 NUMA nodes: each rank stays on its GPU's"),
        ({}, {"numa_nodes": 2, "accelerator": "cpu"}, {}, "one NUMA node, or no GPU to bind to"),
        ({"numa_binding": NumaBinding["core-complex"]}, {}, {"numa_binding": "core-complex"}, ""),
        ({"numa_binding": NumaBinding.none}, {"numa_nodes": 2}, {}, ""),
        ({}, {"num_nodes": 2}, {"rdzv_port": 29500}, "one NUMA node, or no GPU to bind to"),
        ({"rdzv_port": 1234}, {}, {"rdzv_port": 1234}, "one NUMA node, or no GPU to bind to"),
        (
            {"max_restarts": 3, "monitor_interval": 5.0, "rdzv_timeout": 60, "signals_to_handle": ["SIGTERM"], "shutdown_timeout": 0},
            {},
            {"max_restarts": 3, "monitor_interval": 5.0, "rdzv_timeout": 60, "signals_to_handle": ("SIGTERM",), "shutdown_timeout": 0},
            "one NUMA node, or no GPU to bind to",
        ),
    ],
)
def test_torchrun(config: dict[str, Any], hardware: dict[str, Any], expected: dict[str, Any], why: str) -> None:
    resolved = resolve_torchrun(TorchrunConfig(**config), replace(GPUS, **hardware))
    assert resolved.value == TorchrunPlan(**{**COMMON, **expected})
    assert resolved.reasons["numa_binding"].text == why
    assert list(resolved.problems) == []


@pytest.mark.parametrize(
    ("torch", "binding", "expected", "why", "problems"),
    [
        ((2, 9), None, "node", "8 NUMA nodes: each rank stays on its GPU's", []),
        ((2, 8), None, "none", "torchrun 2.8 cannot bind ranks, 2.9 can", []),
        ((2, 8), NumaBinding.node, "node", "", ["torchrun.numa_binding=node needs torch 2.9; torch 2.8 is installed"]),
        ((2, 8), NumaBinding.none, "none", "", []),
    ],
)
def test_binding_needs_a_torchrun_that_can(
    torch: tuple[int, int], binding: NumaBinding | None, expected: str, why: str, problems: list[str]
) -> None:
    resolved = resolve_torchrun(TorchrunConfig(numa_binding=binding), replace(GPUS, numa_nodes=8), torch)
    assert (resolved.value.numa_binding, resolved.reasons["numa_binding"].text) == (expected, why)
    assert [problem.message for problem in resolved.problems if problem.code == "ZC223"] == problems


@pytest.mark.parametrize(
    ("config", "accelerator", "report"),
    [
        (
            {"max_restarts": -1, "rdzv_timeout": 0, "shutdown_timeout": -1, "rdzv_port": 0, "monitor_interval": -1.0},
            "cuda",
            """\
error[ZC221] torchrun.max_restarts=-1 must be at least 0
  try: torchrun.max_restarts=0
error[ZC221] torchrun.rdzv_timeout=0 must be at least 1
  try: torchrun.rdzv_timeout=1
error[ZC221] torchrun.shutdown_timeout=-1 must be at least 0
  try: torchrun.shutdown_timeout=0
error[ZC221] torchrun.rdzv_port=0 is not a port
  try: torchrun.rdzv_port=29500
error[ZC221] torchrun.monitor_interval=-1.0 must be above 0 seconds
  try: torchrun.monitor_interval=0.1""",
        ),
        (
            {"signals_to_handle": ["SIGTERM", "TERM", "SIGSTOP"], "numa_binding": NumaBinding.node},
            "cpu",
            """\
error[ZC222] torchrun.signals_to_handle: TERM is not a signal here
  try: torchrun.signals_to_handle=[SIGTERM,SIGINT]
error[ZC222] torchrun.signals_to_handle: SIGSTOP cannot be caught by any process
  try: torchrun.signals_to_handle=[SIGTERM,SIGINT]
error[ZC223] torchrun.numa_binding=node binds each rank to its GPU's node; on cpu torchrun fails
  try: torchrun.numa_binding=none""",
        ),
    ],
)
def test_torchrun_problems(config: dict[str, Any], accelerator: str, report: str) -> None:
    resolved = resolve_torchrun(TorchrunConfig(**config), replace(GPUS, accelerator=accelerator))
    assert "\n".join(problem.render() for problem in resolved.problems) == report


@pytest.mark.parametrize(
    ("config", "accelerator", "expected"),
    [
        ({}, "cuda", {"pin_memory": True}),
        ({}, "cpu", {"pin_memory": False}),
        (
            {"steps": 5e3, "seed": 0, "log_every": 1, "num_workers": 4, "pin_memory": False, "data": "/text"},
            "cuda",
            {"steps": 5000, "seed": 0, "log_every": 1, "num_workers": 4, "pin_memory": False, "data": "/text"},
        ),
        (
            {"profile": Profile.none, "trackers": ["wandb", "tensorboard", "wandb"]},
            "cpu",
            {"pin_memory": False, "profile": "none", "trackers": ("wandb", "tensorboard")},
        ),
    ],
)
def test_train(config: dict[str, Any], accelerator: str, expected: dict[str, Any]) -> None:
    resolved = resolve_train(TrainConfig(**config), replace(GPUS, accelerator=accelerator))
    common = {"steps": 100, "seed": 1234, "log_every": 10, "num_workers": 0, "data": "", "profile": "steps", "trackers": ("tensorboard",)}
    assert resolved.value == TrainPlan(**{**common, **expected})
    assert list(resolved.problems) == []


def test_train_problems() -> None:
    resolved = resolve_train(TrainConfig(steps=0, seed=-1, log_every=0, num_workers=-2, trackers=["wandb", "tensorbord"]), GPUS)
    assert [(problem.code, problem.message) for problem in resolved.problems] == [
        ("ZC221", "train.steps=0 must be at least 1"),
        ("ZC221", "train.log_every=0 must be at least 1"),
        ("ZC221", "train.num_workers=-2 must be at least 0"),
        ("ZC221", "train.seed=-1 must be at least 0"),
        ("ZC225", "train.trackers: tensorbord is not one of tensorboard, wandb"),
    ]
