"""Values without effect: the wrong stage, a switch that is off."""

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


CASES: list[dict[str, Any]] = [
    {
        "code": "ZC630",
        "path": "zero_optimization.stage3_max_live_parameters",
        "bad": zero(2, stage3_max_live_parameters=1000000),
        "good": zero(3, stage3_max_live_parameters=1000000),
        "parser": "accepts",
    },
    {
        "code": "ZC630",
        "path": "zero_optimization.stage3_max_live_parameters",
        "severity": WARNING,
        "bad": zero(2, stage3_max_live_parameters=1e9),
        "good": zero(2),
        "parser": "accepts",
    },
    {
        "code": "ZC630",
        "path": "zero_optimization.prefetch_bucket_size",
        "bad": zero(1, prefetch_bucket_size=10),
        "good": zero(3, prefetch_bucket_size=10),
        "parser": "accepts",
    },
    {
        "code": "ZC630",
        "path": "zero_optimization.zero_quantized_weights",
        "bad": zero(2, zero_quantized_weights=True),
        "good": zero(3, zero_quantized_weights=True),
        "parser": "accepts",
    },
    {
        "code": "ZC630",
        "path": "zero_optimization.zero_hpz_partition_size",
        "bad": zero(2, zero_hpz_partition_size=8),
        "good": zero(3, zero_hpz_partition_size=8),
        "options": {"world_size": 16},
        "parser": "accepts",
    },
    {
        "code": "ZC630",
        "path": "zero_optimization.round_robin_gradients",
        "bad": zero(3, round_robin_gradients=True),
        "good": zero(2, round_robin_gradients=True),
        "parser": "accepts",
    },
    {
        "code": "ZC630",
        "path": "zero_optimization.overlap_comm",
        "bad": zero(0, overlap_comm=True),
        "good": zero(1, overlap_comm=True),
        "parser": "accepts",
    },
    {
        "code": "ZC631",
        "path": "zero_optimization.offload_optimizer.nvme_path",
        "bad": zero(3, offload_optimizer={**CPU, "nvme_path": "/local_nvme"}),
        "good": zero(3, offload_optimizer=NVME),
        "parser": "accepts",
    },
    {
        "code": "ZC631",
        "path": "fp16.initial_scale_power",
        "bad": {"fp16": {"enabled": True, "loss_scale": 128, "initial_scale_power": 12}},
        "good": {"fp16": {"enabled": True, "initial_scale_power": 12}},
        "parser": "accepts",
    },
    {
        "code": "ZC631",
        "path": "aio.queue_depth",
        "bad": {"aio.queue_depth": 32},
        "good": {"aio.queue_depth": 32, **zero(3, offload_param=NVME)},
        "parser": "accepts",
    },
    {
        "code": "ZC631",
        "path": "optimizer.params",
        "bad": {"optimizer.params": {"lr": 1e-4}},
        "good": {"optimizer": {"type": "AdamW", "params": {"lr": 1e-4}}},
        "parser": "accepts",
    },
    {
        "code": "ZC631",
        "path": "tensorboard.output_path",
        "bad": {"tensorboard.output_path": "logs"},
        "good": {"tensorboard": {"enabled": True, "output_path": "logs"}},
        "parser": "accepts",
    },
    {
        "code": "ZC631",
        "path": "allgather_size",
        "severity": Severity.ERROR,
        "bad": {"zero_optimization.stage": 1, "allgather_size": 100},
        "good": {},
        "parser": "accepts",
    },
    {
        "code": "ZC636",
        "path": "bf16.bf16_master_weights_and_grads",
        "bad": {**zero(1, offload_optimizer=CPU), "bf16": {"enabled": False, "bf16_master_weights_and_grads": True}},
        "good": {**zero(1, offload_optimizer=CPU), "bf16": {"enabled": True, "bf16_master_weights_and_grads": True}},
        "parser": "accepts",
    },
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['code']}-{case['path']}")
def test_case(case: Mapping[str, Any], examine: Callable[[Mapping[str, Any]], None]) -> None:
    examine(case)


def test_a_section_that_says_it_is_off_may_keep_its_values() -> None:
    config = {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_clipping": 1.0,
        "fp16": {"enabled": False, "loss_scale": 512, "initial_scale_power": 12},
        "tensorboard": {"enabled": False, "output_path": "logs"},
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "none", "pin_memory": False}},
    }
    assert check_deepspeed(config, world_size=1) == []
