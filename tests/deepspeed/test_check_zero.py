"""Buckets, ZeRO++, checkpoints of ZeRO."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from zerocfg.deepspeed.check import check_deepspeed
from zerocfg.diagnostics import Severity

WARNING = Severity.WARNING


def zero(stage: int, **settings: Any) -> dict[str, Any]:
    return {"zero_optimization": {"stage": stage, **settings}}


AUTOCAST = {"torch_autocast": {"enabled": True, "dtype": "bfloat16"}}

CASES: list[dict[str, Any]] = [
    {
        "code": "ZC675",
        "path": "zero_optimization.allgather_bucket_size",
        "bad": zero(2, allgather_bucket_size=3),
        "good": zero(2, allgather_bucket_size=4),
        "parser": "accepts",
    },
    {
        "code": "ZC677",
        "path": "zero_optimization.zero_quantized_gradients",
        "bad": zero(3, zero_quantized_gradients=True, reduce_scatter=False),
        "good": zero(3, zero_quantized_gradients=True),
        "parser": "accepts",
    },
    {
        "code": "ZC677",
        "path": "zero_optimization.zero_quantized_weights",
        "bad": {**zero(3, zero_quantized_weights=True), **AUTOCAST},
        "good": zero(3, zero_quantized_weights=True),
        "parser": "accepts",
    },
    {
        "code": "ZC677",
        "path": "zero_optimization.zero_hpz_partition_size",
        "bad": zero(3, zero_hpz_partition_size=3),
        "good": zero(3, zero_hpz_partition_size=4),
        "options": {"world_size": 8},
        "parser": "accepts",
    },
    {
        "code": "ZC678",
        "path": "zero_optimization.elastic_checkpoint",
        "bad": zero(3, elastic_checkpoint=True),
        "good": zero(3),
        "parser": "accepts",
    },
    {
        "code": "ZC678",
        "path": "zero_optimization.pipeline_loading_checkpoint",
        "bad": zero(2, pipeline_loading_checkpoint=True),
        "good": zero(3, pipeline_loading_checkpoint=True),
        "parser": "accepts",
    },
    {
        "code": "ZC679",
        "path": "zero_optimization.reduce_bucket_size",
        "severity": WARNING,
        "bad": zero(2, reduce_bucket_size=500000000),
        "good": zero(2, reduce_bucket_size=20000000),
        "options": {"trainable_params": 20_000_000},
        "parser": "accepts",
    },
    {
        "code": "ZC679",
        "path": "zero_optimization.reduce_bucket_size",
        "severity": WARNING,
        "bad": zero(2),
        "good": zero(2, contiguous_gradients=False),
        "options": {"trainable_params": 20_000_000},
        "parser": "accepts",
    },
    {
        "code": "ZC680",
        "path": "zero_optimization.stage3_prefetch_bucket_size",
        "severity": WARNING,
        "bad": zero(3, stage3_allgather_sequential=True, stage3_prefetch_bucket_size=1000),
        "good": zero(3, stage3_allgather_sequential=True),
        "parser": "accepts",
    },
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['code']}-{case['path']}")
def test_case(case: Mapping[str, Any], examine: Callable[[Mapping[str, Any]], None]) -> None:
    examine(case)


def test_the_bucket_shows_its_bytes() -> None:
    config = {"train_batch_size": 1, "gradient_clipping": 1.0, "bf16": {"enabled": True}, **zero(1, overlap_comm=True)}
    found = [d for d in check_deepspeed(config, world_size=1, trainable_params=13_000_000) if d.code == "ZC679"]
    assert [(d.detail, d.hint) for d in found] == [
        (
            ("500000000 elements x 2 bytes x 2 = 1.86 GiB on each GPU, whatever the model's size",),
            "deepspeed.zero_optimization.reduce_bucket_size=13000000",
        )
    ]
