"""Offload in all its forms, ZenFlow, SuperOffload."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from zerocfg.deepspeed.check import check_deepspeed
from zerocfg.diagnostics import Severity

WARNING = Severity.WARNING
NVME = {"device": "nvme", "nvme_path": "/local_nvme", "pin_memory": True}
CPU = {"device": "cpu", "pin_memory": True}


def zero(stage: int, **settings: Any) -> dict[str, Any]:
    return {"zero_optimization": {"stage": stage, **settings}}


ZENFLOW = {"select_strategy": "step", "select_interval": 4, "update_interval": 4}


def zenflow(stage: int = 2, states: Any = CPU, **changes: Any) -> dict[str, Any]:
    return {"gradient_accumulation_steps": 4, **zero(stage, offload_optimizer=states, zenflow={**ZENFLOW, **changes})}


CASES: list[dict[str, Any]] = [
    {
        "code": "ZC632",
        "path": "zero_optimization.offload_param.device",
        "bad": zero(2, offload_param=CPU),
        "good": zero(3, offload_param=CPU),
        "parser": "accepts",
    },
    {
        "code": "ZC633",
        "path": "zero_optimization.offload_optimizer.device",
        "bad": zero(2, offload_optimizer=NVME),
        "good": zero(3, offload_optimizer=NVME),
        "parser": "accepts",
    },
    {
        "code": "ZC634",
        "path": "zero_optimization.offload_optimizer.device",
        "bad": zero(0, offload_optimizer=CPU),
        "good": zero(1, offload_optimizer=CPU),
        "parser": "accepts",
    },
    {
        "code": "ZC634",
        "path": "zero_optimization.cpu_offload",
        "bad": zero(0, cpu_offload=True),
        "good": zero(1, offload_optimizer=CPU),
        "parser": "accepts",
    },
    {
        "code": "ZC635",
        "path": "zero_optimization.offload_optimizer.nvme_path",
        "bad": zero(3, offload_optimizer={"device": "nvme", "pin_memory": True}),
        "good": zero(3, offload_optimizer=NVME),
        "parser": "accepts",
    },
    {
        "code": "ZC635",
        "path": "zero_optimization.offload_param.nvme_path",
        "bad": zero(3, offload_param={"device": "nvme", "pin_memory": True}),
        "good": zero(3, offload_param=NVME),
        "parser": "accepts",
    },
    {"code": "ZC637", "path": "zero_optimization.zenflow", "bad": zenflow(0, {"device": "none"}), "good": zenflow(), "parser": "accepts"},
    {"code": "ZC637", "path": "zero_optimization.zenflow", "bad": zenflow(3, {"device": "none"}), "good": zenflow(3), "parser": "accepts"},
    {
        "code": "ZC637",
        "path": "zero_optimization.zenflow",
        "bad": zenflow(3),
        "options": {"accelerator": "cpu"},
        "good": zenflow(2),
        "parser": "accepts",
    },
    {
        "code": "ZC637",
        "path": "zero_optimization.zenflow.update_interval",
        "bad": zenflow(update_interval=2),
        "good": zenflow(),
        "parser": "accepts",
    },
    {
        "code": "ZC637",
        "path": "zero_optimization.zenflow.update_interval",
        "bad": zenflow(update_interval="auto"),
        "good": zenflow(),
        "parser": "accepts",
    },
    {
        "code": "ZC637",
        "path": "zero_optimization.zenflow.select_interval",
        "bad": zenflow(select_interval=2),
        "good": zenflow(select_interval=8),
        "parser": "accepts",
    },
    {
        "code": "ZC637",
        "path": "zero_optimization.zenflow.select_interval",
        "bad": zenflow(select_strategy="auto"),
        "good": zenflow(),
        "parser": "accepts",
    },
    {
        "code": "ZC637",
        "path": "zero_optimization.zenflow.select_interval",
        "bad": zenflow(select_interval="auto"),
        "good": zenflow(),
        "parser": "accepts",
    },
    {
        "code": "ZC637",
        "path": "zero_optimization.zenflow.offload",
        "bad": zenflow(offload=True),
        "good": zenflow(3, offload=True),
        "parser": "accepts",
    },
    {
        "code": "ZC637",
        "path": "optimizer.params",
        "bad": {**zenflow(), "optimizer": {"type": "AdamW"}},
        "good": {**zenflow(), "optimizer": {"type": "AdamW", "params": {}}},
        "parser": "accepts",
    },
    {
        "code": "ZC637",
        "path": "optimizer.params.bias_correction",
        "bad": {**zenflow(), "optimizer": {"type": "AdamW", "params": {"bias_correction": True}}},
        "good": {**zenflow(), "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}}},
        "parser": "accepts",
    },
    {
        "code": "ZC638",
        "path": "zero_optimization.offload_optimizer.super_offload",
        "bad": zero(2, offload_optimizer={**CPU, "super_offload": True}),
        "good": zero(3, offload_optimizer={**CPU, "super_offload": True}),
        "parser": "accepts",
    },
    {
        "code": "ZC638",
        "path": "zero_optimization.offload_optimizer.super_offload",
        "bad": zero(3, offload_optimizer={**NVME, "super_offload": True}),
        "good": zero(3, offload_optimizer=NVME),
        "parser": "accepts",
    },
    {
        "code": "ZC638",
        "path": "zero_optimization.offload_optimizer.super_offload",
        "bad": {**zero(3, offload_optimizer={**CPU, "super_offload": True}), "optimizer": {"type": "Lion", "params": {}}},
        "good": {**zero(3, offload_optimizer={**CPU, "super_offload": True}), "optimizer": {"type": "Adam", "params": {}}},
        "parser": "accepts",
    },
    {
        "code": "ZC638",
        "path": "zero_optimization.offload_optimizer.cpuadam_cores_perc",
        "bad": zero(3, offload_optimizer={**CPU, "super_offload": True, "cpuadam_cores_perc": 0.0}),
        "good": zero(3, offload_optimizer={**CPU, "super_offload": True}),
        "parser": "accepts",
    },
    {
        "code": "ZC639",
        "path": "zero_optimization.offload_optimizer.ratio",
        "bad": zero(2, offload_optimizer={**CPU, "ratio": 0.5}),
        "good": zero(3, offload_optimizer={**CPU, "ratio": 0.5}),
        "parser": "raises",
    },
    {
        "code": "ZC639",
        "path": "zero_optimization.offload_optimizer.ratio",
        "bad": {**zero(3, offload_optimizer={**CPU, "ratio": 0.5}), "optimizer": {"type": "Lion", "params": {}}},
        "good": {**zero(3, offload_optimizer={**CPU, "ratio": 0.5}), "optimizer": {"type": "AdamW", "params": {}}},
        "parser": "accepts",
    },
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['code']}-{case['path']}")
def test_case(case: Mapping[str, Any], examine: Callable[[Mapping[str, Any]], None]) -> None:
    examine(case)


def test_the_report_shows_stage_rule_and_both_ways_out() -> None:
    config = {"train_micro_batch_size_per_gpu": 1, "gradient_clipping": 1.0, **zero(2, offload_param=CPU)}
    (found,) = check_deepspeed(config, world_size=1)
    assert found.render() == (
        'error[ZC632] deepspeed.zero_optimization.offload_param.device="cpu" is ignored in silence at ZeRO stage 2\n'
        "  only stage 3 partitions parameters, so only stage 3 can offload them\n"
        '  try: deepspeed.zero_optimization.stage=3, or deepspeed.zero_optimization.offload_param.device="none"'
    )
