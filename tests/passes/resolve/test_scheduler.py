from __future__ import annotations

from typing import Any

import pytest

from zerocfg.passes.resolve.scheduler import resolve_scheduler
from zerocfg.plan import SchedulerPlan
from zerocfg.schema.optimizer import SchedulerConfig

LR = 2e-4


@pytest.mark.parametrize(
    ("config", "steps", "params"),
    [
        ({"type": None}, 1000, {}),
        (
            {"type": "WarmupLR"},
            1000,
            {"warmup_min_lr": 0.0, "warmup_max_lr": LR, "warmup_type": "linear", "warmup_num_steps": 10},
        ),
        (
            {"type": "WarmupLR", "warmup_min_lr": 1e-6, "warmup_max_lr": 1e-3, "warmup_type": "log", "warmup_num_steps": 100},
            1000,
            {"warmup_min_lr": 1e-6, "warmup_max_lr": 1e-3, "warmup_type": "log", "warmup_num_steps": 100},
        ),
        # the length of the run is only used for what is left null
        (
            {"type": "WarmupLR", "total_num_steps": 5000},
            1000,
            {"warmup_min_lr": 0.0, "warmup_max_lr": LR, "warmup_type": "linear", "warmup_num_steps": 50},
        ),
        (
            {"type": "WarmupDecayLR"},
            10**6,
            {"total_num_steps": 10**6, "warmup_min_lr": 0.0, "warmup_max_lr": LR, "warmup_type": "linear", "warmup_num_steps": 2000},
        ),
        (
            {"type": "WarmupCosineLR", "cos_min_ratio": 0.05, "total_num_steps": 50},
            1000,
            {"total_num_steps": 50, "warmup_min_ratio": 0.0, "cos_min_ratio": 0.05, "warmup_type": "linear", "warmup_num_steps": 2},
        ),
        (
            {"type": "OneCycle"},
            1001,
            {
                "cycle_min_lr": LR / 10,
                "cycle_max_lr": LR,
                "cycle_first_step_size": 500,
                "decay_lr_rate": 0.0,
                "cycle_momentum": False,
            },
        ),
        (
            {
                "type": "OneCycle",
                "cycle_min_lr": 1e-5,
                "cycle_max_lr": 1e-2,
                "cycle_first_step_size": 10,
                "cycle_second_step_size": 20,
                "decay_lr_rate": 0.01,
            },
            1000,
            {
                "cycle_min_lr": 1e-5,
                "cycle_max_lr": 1e-2,
                "cycle_first_step_size": 10,
                "cycle_second_step_size": 20,
                "decay_lr_rate": 0.01,
                "decay_step_size": 1,
                "cycle_momentum": False,
            },
        ),
    ],
)
def test_parameters(config: dict[str, Any], steps: int, params: dict[str, Any]) -> None:
    resolved = resolve_scheduler(SchedulerConfig(**config), LR, steps)
    assert list(resolved.problems) == []
    assert resolved.value == SchedulerPlan(type=config["type"] or "", params=params)
    assert set(resolved.reasons) == {"type", *(f"params.{name}" for name in params)}
    assert [name for name, value in params.items() if name.endswith(("steps", "step_size")) and not isinstance(value, int)] == []


@pytest.mark.parametrize(
    ("config", "steps", "report"),
    [
        (
            {"type": "warmupcosine"},
            100,
            """\
error[ZC150] scheduler.type=warmupcosine is not one of DeepSpeed's schedulers here
  try: scheduler.type=WarmupCosineLR""",
        ),
        (
            {"type": "WarmupDecayLR", "warmup_num_steps": 200},
            100,
            """\
error[ZC151] scheduler.warmup_num_steps=200 is not below total_num_steps=100: the rate would never come down
  total_num_steps counts optimizer steps; null means train.steps
  try: scheduler.warmup_num_steps=10, or scheduler.total_num_steps=2000""",
        ),
        (
            {"type": "WarmupCosineLR"},
            1,
            """\
error[ZC151] scheduler.warmup_num_steps=2 is not below total_num_steps=1: the rate would never come down
  total_num_steps counts optimizer steps; null means train.steps
  try: scheduler.total_num_steps=20""",
        ),
        (
            {"type": "WarmupLR", "total_num_steps": 0, "warmup_num_steps": -3},
            100,
            """\
error[ZC151] scheduler.total_num_steps=0 must be at least 1
  try: scheduler.total_num_steps=100
error[ZC151] scheduler.warmup_num_steps=-3: DeepSpeed raises it to 2 in silence (or refuses 0)
  try: scheduler.warmup_num_steps=2, or scheduler=none""",
        ),
        (
            {"type": "WarmupDecayLR", "total_num_steps": 60},
            100,
            """\
warning[ZC151] scheduler.total_num_steps=60 is below train.steps=100: the rate is 0 from there on
  try: scheduler.total_num_steps=100""",
        ),
        (
            {"type": "OneCycle", "cycle_first_step_size": 0, "cycle_second_step_size": -1},
            100,
            """\
error[ZC151] scheduler.cycle_first_step_size=0 must be at least 1
  try: scheduler.cycle_first_step_size=50
error[ZC151] scheduler.cycle_second_step_size=-1 must be at least 0
  try: scheduler.cycle_second_step_size=50""",
        ),
        (
            {"type": "WarmupLR", "warmup_type": "exp", "warmup_min_lr": -1.0, "cos_min_ratio": 0.2},
            100,
            """\
error[ZC154] scheduler.cos_min_ratio=0.2 has no meaning for WarmupLR
  WarmupLR takes warmup_num_steps, warmup_type, total_num_steps, warmup_min_lr, warmup_max_lr
  try: ~scheduler.cos_min_ratio, or a scheduler that has it: WarmupCosineLR
error[ZC152] scheduler.warmup_type=exp is not log or linear: DeepSpeed would use log in silence
  try: scheduler.warmup_type=linear
error[ZC153] scheduler.warmup_min_lr=-1.0 is not 0 or more
  try: scheduler.warmup_min_lr=0""",
        ),
        (
            {"type": "OneCycle", "cycle_min_lr": 1e-2},
            100,
            """\
error[ZC153] scheduler.cycle_min_lr=0.01 is above cycle_max_lr=0.0002: the rate would fall where it should rise
  try: scheduler.cycle_min_lr=0.0002 or less""",
        ),
        (
            {"type": None, "total_num_steps": 100},
            100,
            """\
error[ZC154] scheduler.total_num_steps=100 has no meaning for a constant rate
  try: ~scheduler.total_num_steps, or a scheduler that has it: WarmupLR, WarmupDecayLR, WarmupCosineLR, OneCycle""",
        ),
    ],
)
def test_problems(config: dict[str, Any], steps: int, report: str) -> None:
    assert "\n".join(problem.render() for problem in resolve_scheduler(SchedulerConfig(**config), LR, steps).problems) == report
