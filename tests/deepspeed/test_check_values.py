"""Types, limits and choices, as DeepSpeed takes or refuses them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from zerocfg.deepspeed.check import check_deepspeed
from zerocfg.diagnostics import Severity

WARNING = Severity.WARNING
STAGE_1 = {"zero_optimization.stage": 1}

CASES: list[dict[str, Any]] = [
    {
        "code": "ZC620",
        "path": "zero_optimization.reduce_bucket_size",
        "bad": {**STAGE_1, "zero_optimization.reduce_bucket_size": "5e8"},
        "good": {**STAGE_1, "zero_optimization.reduce_bucket_size": 5e8},
        "parser": "raises",
    },
    {
        "code": "ZC620",
        "path": "fp16.loss_scale",
        "bad": {"fp16": {"enabled": True, "loss_scale": True}},
        "good": {"fp16": {"enabled": True, "loss_scale": 1}},
        "parser": "raises",
    },
    {
        "code": "ZC620",
        "path": "tensorboard.job_name",
        "bad": {"tensorboard": {"enabled": True, "job_name": 7}},
        "good": {"tensorboard": {"enabled": True, "job_name": "7"}},
        "parser": "raises",
    },
    {"code": "ZC620", "path": "tensor_parallel.dtype", "bad": {"tensor_parallel.dtype": "bf16"}, "good": {}, "parser": "raises"},
    {
        "code": "ZC621",
        "path": "zero_optimization.stage",
        "severity": WARNING,
        "bad": {"zero_optimization.stage": "2"},
        "good": {"zero_optimization.stage": 2},
        "parser": "accepts",
    },
    {
        "code": "ZC621",
        "path": "bf16.enabled",
        "severity": WARNING,
        "bad": {"bf16.enabled": "true"},
        "good": {"bf16.enabled": True},
        "parser": "accepts",
    },
    {
        "code": "ZC621",
        "path": "gradient_accumulation_steps",
        "severity": WARNING,
        "bad": {"gradient_accumulation_steps": 8.0},
        "good": {"gradient_accumulation_steps": 8},
        "parser": "accepts",
    },
    {
        "code": "ZC622",
        "path": "gradient_clipping",
        "bad": {"gradient_clipping": "1.0"},
        "good": {"gradient_clipping": 1.0},
        "parser": "accepts",
    },
    {
        "code": "ZC622",
        "path": "gradient_accumulation_steps",
        "bad": {"gradient_accumulation_steps": "8"},
        "good": {"gradient_accumulation_steps": 8},
        "parser": "raises",
    },
    {
        "code": "ZC622",
        "path": "prescale_gradients",
        "bad": {"prescale_gradients": "false"},
        "good": {"prescale_gradients": False},
        "parser": "accepts",
    },
    {
        "code": "ZC622",
        "path": "optimizer.params.lr",
        "bad": {"optimizer": {"type": "AdamW", "params": {"lr": "1e-4"}}},
        "good": {"optimizer": {"type": "AdamW", "params": {"lr": 1e-4}}},
        "parser": "accepts",
    },
    {"code": "ZC623", "path": "bf16.enabled", "bad": {"bf16.enabled": "auto"}, "good": {"bf16.enabled": True}, "parser": "accepts"},
    {"code": "ZC623", "path": "train_batch_size", "bad": {"train_batch_size": "auto"}, "good": {"train_batch_size": 1}, "parser": "raises"},
    {
        "code": "ZC623",
        "path": "optimizer.params.lr",
        "bad": {"optimizer": {"type": "AdamW", "params": {"lr": "auto"}}},
        "good": {"optimizer": {"type": "AdamW", "params": {"lr": 1e-4}}},
        "parser": "accepts",
    },
    {
        "code": "ZC624",
        "path": "gradient_clipping",
        "bad": {"gradient_clipping": float("inf")},
        "good": {"gradient_clipping": 0.0},
        "parser": "accepts",
    },
    {
        "code": "ZC624",
        "path": "fp16.loss_scale",
        "bad": {"fp16": {"enabled": True, "loss_scale": float("nan")}},
        "good": {"fp16.enabled": True},
        "parser": "raises",
    },
    {
        "code": "ZC625",
        "path": "zero_optimization.reduce_bucket_size",
        "bad": {**STAGE_1, "zero_optimization.reduce_bucket_size": 0},
        "good": {**STAGE_1, "zero_optimization.reduce_bucket_size": 1},
        "parser": "raises",
    },
    {
        "code": "ZC625",
        "path": "gradient_clipping",
        "bad": {"gradient_clipping": -1.0},
        "good": {"gradient_clipping": 0.0},
        "parser": "accepts",
    },
    {"code": "ZC625", "path": "steps_per_print", "bad": {"steps_per_print": 0}, "good": {"steps_per_print": 1}, "parser": "accepts"},
    {
        "code": "ZC625",
        "path": "train_micro_batch_size_per_gpu",
        "bad": {"train_micro_batch_size_per_gpu": 0},
        "good": {},
        "parser": "raises",
    },
    {
        "code": "ZC625",
        "path": "fp16.hysteresis",
        "bad": {"fp16": {"enabled": True, "hysteresis": 0}},
        "good": {"fp16": {"enabled": True, "hysteresis": 1}},
        "parser": "accepts",
    },
    {
        "code": "ZC625",
        "path": "zero_optimization.zenflow.topk_ratio",
        "bad": {"zero_optimization": {"stage": 1, "zenflow": {"topk_ratio": 1.0}}},
        "good": {},
        "parser": "raises",
    },
    {
        "code": "ZC626",
        "path": "zero_optimization.stage",
        "bad": {"zero_optimization.stage": 4},
        "good": {"zero_optimization.stage": 3},
        "parser": "raises",
    },
    {
        "code": "ZC626",
        "path": "communication_data_type",
        "bad": {"communication_data_type": "bfp16"},
        "good": {"communication_data_type": "BF16"},
        "parser": "raises",
    },
    {
        "code": "ZC626",
        "path": "checkpoint.tag_validation",
        "bad": {"checkpoint.tag_validation": "maybe"},
        "good": {"checkpoint.tag_validation": "Ignore"},
        "parser": "raises",
    },
    {
        "code": "ZC626",
        "path": "data_types.grad_accum_dtype",
        "bad": {**STAGE_1, "data_types.grad_accum_dtype": "float64"},
        "good": {**STAGE_1, "data_types.grad_accum_dtype": "float32"},
        "parser": "accepts",
    },
    {
        "code": "ZC626",
        "path": "torch_autocast.dtype",
        "bad": {"torch_autocast": {"enabled": True, "dtype": "fp8"}},
        "good": {"torch_autocast": {"enabled": True, "dtype": "bf16"}},
        "parser": "raises",
    },
    {
        "code": "ZC626",
        "path": "tensor_parallel.preset_model",
        "bad": {"tensor_parallel": {"autotp_size": 2, "preset_model": "lama"}},
        "good": {"tensor_parallel": {"autotp_size": 2, "preset_model": "llama"}},
        "options": {"world_size": 2},
        "parser": "accepts",
    },
    {
        "code": "ZC626",
        "path": "compile.passes",
        "bad": {"compile.passes": ["z1", "z9"]},
        "good": {"compile.passes": []},
        "also": ("ZC613",),
        "parser": "raises",
    },
    {
        "code": "ZC627",
        "path": "zero_optimization.sub_group_size",
        "bad": {"zero_optimization": {"stage": 3, "sub_group_size": 1.5}},
        "good": {"zero_optimization": {"stage": 3, "sub_group_size": 2}},
        "parser": "raises",
    },
    {
        "code": "ZC627",
        "path": "zero_optimization.reduce_bucket_size",
        "bad": {**STAGE_1, "zero_optimization.reduce_bucket_size": 0.9 * 1001**2},
        "good": {**STAGE_1, "zero_optimization.reduce_bucket_size": 901801},
        "parser": "raises",
    },
    {"code": "ZC627", "path": "steps_per_print", "bad": {"steps_per_print": 1.5}, "good": {"steps_per_print": 2}, "parser": "accepts"},
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['code']}-{case['path']}")
def test_case(case: Mapping[str, Any], examine: Callable[[Mapping[str, Any]], None]) -> None:
    examine(case)


def only(config: dict[str, Any]) -> str:
    """The report on a config with one mistake."""
    (found,) = check_deepspeed({"train_micro_batch_size_per_gpu": 1, "gradient_clipping": 1.0, **config}, world_size=1)
    return found.render()


def test_one_mistake_is_told_once() -> None:
    assert only({"fp16": {"enabled": "auto", "initial_scale_power": 12}}) == (
        'error[ZC623] deepspeed.fp16.enabled="auto" is dropped: DeepSpeed would use false\n'
        "  try: the value, such as deepspeed.fp16.enabled=false, or remove deepspeed.fp16.enabled"
    )
    assert only({"zero_optimization": {"stage": 7, "stage3_max_live_parameters": 10}}) == (
        "error[ZC626] deepspeed.zero_optimization.stage=7 is none of the choices\n  choices: 0, 1, 2, 3\n"
        "  try: deepspeed.zero_optimization.stage=0, or another of the choices"
    )


def test_what_was_meant_is_ready_to_paste() -> None:
    assert only({"gradient_accumulation_steps": "8"}).endswith("try: deepspeed.gradient_accumulation_steps=8")
    assert only({"zero_optimization": {"stage": 1, "reduce_bucket_size": "5e8"}}).endswith(
        "try: deepspeed.zero_optimization.reduce_bucket_size=500000000"
    )
    assert only({"wall_clock_breakdown": "true"}).endswith("try: deepspeed.wall_clock_breakdown=true")
    assert only({"communication_data_type": "bfp16"}).endswith(
        'try: deepspeed.communication_data_type="fp16" or deepspeed.communication_data_type="bf16"'
    )


def test_auto_is_fine_where_deepspeed_fills_it_in() -> None:
    config = {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_clipping": 1.0,
        "data_types": {"keep_in_fp32_modules": "auto"},
        "expert_parallel": {"enabled": True, "autoep_size": 2, "top_k": "auto", "score_func": "auto"},
    }
    assert check_deepspeed(config, world_size=2) == []


def test_whole_numbers_may_be_written_with_an_exponent() -> None:
    config = {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_clipping": 1.0,
        "zero_optimization": {"stage": 2, "reduce_bucket_size": 5e7, "allgather_bucket_size": 2e8},
    }
    assert check_deepspeed(config, world_size=1) == []
