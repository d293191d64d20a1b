"""AutoTP, AutoEP, pipeline settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from zerocfg.diagnostics import Severity

WARNING = Severity.WARNING
EIGHT = {"world_size": 8}
CPU = {"device": "cpu", "pin_memory": True}


def tp(size: int = 2, **settings: Any) -> dict[str, Any]:
    return {"tensor_parallel": {"autotp_size": size, **settings}}


def ep(size: int = 2, **settings: Any) -> dict[str, Any]:
    return {"expert_parallel": {"enabled": True, "autoep_size": size, **settings}}


def shape(value: Any, **spec: Any) -> dict[str, Any]:
    return tp(partition_config={"layer_specs": [{"patterns": [".*qkv.*"], "shape": value, **spec}]})


SPEC = "tensor_parallel.partition_config.layer_specs.0.shape"
SCRIPT = ("ZC613",)

CASES: list[dict[str, Any]] = [
    {"code": "ZC681", "path": "tensor_parallel.autotp_size", "bad": tp(3), "good": tp(2), "options": EIGHT, "parser": "accepts"},
    {
        "code": "ZC681",
        "path": "tensor_parallel.tp.tp_size",
        "bad": tp(4, tp={"tp_size": 2}),
        "good": tp(4, tp={"tp_size": 4}),
        "options": EIGHT,
        "parser": "accepts",
    },
    {
        "code": "ZC681",
        "path": "tensor_parallel.vocab_parallel_ce_backend",
        "bad": tp(2, vocab_parallel_ce_backend="liger", vocab_parallel_lm_head=False),
        "good": tp(2, vocab_parallel_ce_backend="liger", vocab_parallel_lm_head=True),
        "options": EIGHT,
        "parser": "accepts",
    },
    {"code": "ZC681", "path": SPEC, "bad": shape([2, 0]), "good": shape([3, -1]), "options": EIGHT, "parser": "accepts"},
    {"code": "ZC681", "path": SPEC, "bad": shape([-1, [4, 2]]), "good": shape([[4, 2, 2], -1]), "options": EIGHT, "parser": "accepts"},
    {
        "code": "ZC681",
        "path": SPEC,
        "bad": shape([2, -1], partition_dim=2),
        "good": shape([2, -1], partition_dim=1),
        "options": EIGHT,
        "parser": "accepts",
    },
    {
        "code": "ZC681",
        "path": "sequence_parallel_size",
        "bad": {**tp(), **ep(4), "sequence_parallel_size": 2, "data_parallel_size": 4},
        "good": {**tp(), **ep(4)},
        "options": EIGHT,
        "parser": "accepts",
    },
    {"code": "ZC682", "path": "expert_parallel.autoep_size", "bad": ep(3), "good": ep(4), "options": EIGHT, "parser": "accepts"},
    {
        "code": "ZC682",
        "path": "expert_parallel.autoep_size",
        "bad": {**tp(), **ep(1)},
        "good": {**tp(), **ep(2)},
        "options": EIGHT,
        "parser": "accepts",
    },
    {
        "code": "ZC682",
        "path": "expert_parallel.gate_up_impl",
        "bad": ep(gate_up_impl="fused", use_grouped_mm=False),
        "good": ep(gate_up_impl="fused"),
        "options": EIGHT,
        "parser": "accepts",
    },
    {
        "code": "ZC682",
        "path": "expert_parallel.row_weighting_impl",
        "bad": ep(row_weighting_impl="fused"),
        "good": ep(row_weighting_impl="fused", comm_backend="deepep", comm_max_tokens_per_rank=4096),
        "options": EIGHT,
        "parser": "accepts",
    },
    {
        "code": "ZC682",
        "path": "expert_parallel.comm_max_tokens_per_rank",
        "bad": ep(comm_backend="deepep"),
        "good": ep(comm_backend="deepep", comm_max_tokens_per_rank=4096),
        "options": EIGHT,
        "parser": "accepts",
    },
    {
        "code": "ZC682",
        "path": "expert_parallel.combine_impl",
        "bad": {**tp(), **ep(combine_impl="fused_weighted_sum")},
        "good": ep(combine_impl="fused_weighted_sum"),
        "options": EIGHT,
        "parser": "accepts",
    },
    {
        "code": "ZC682",
        "path": "expert_parallel.num_limited_groups",
        "bad": ep(num_expert_groups=4, num_limited_groups=8),
        "good": ep(num_expert_groups=8, num_limited_groups=4),
        "options": EIGHT,
        "parser": "accepts",
    },
    {
        "code": "ZC682",
        "path": "expert_parallel.router_pattern",
        "bad": ep(router_pattern="mlp.gate"),
        "good": ep(router_pattern="gate"),
        "options": EIGHT,
        "parser": "accepts",
    },
    {
        "code": "ZC682",
        "path": "expert_parallel.async_split_plan",
        "bad": {**tp(), **ep(async_split_plan=True)},
        "good": ep(async_split_plan=True),
        "options": EIGHT,
        "parser": "accepts",
    },
    {
        "code": "ZC682",
        "path": "expert_parallel.enabled",
        "bad": {**tp(), **ep(), "zero_optimization": {"stage": 2, "offload_optimizer": CPU}},
        "good": {**ep(), "zero_optimization": {"stage": 2, "offload_optimizer": CPU}},
        "options": EIGHT,
        "parser": "accepts",
    },
    {
        "code": "ZC682",
        "path": "expert_parallel.preset_model",
        "bad": {**tp(preset_model="mixtral"), **ep(preset_model="deepseek_v2")},
        "good": {**tp(preset_model="mixtral"), **ep(preset_model="mixtral")},
        "options": EIGHT,
        "parser": "accepts",
    },
    {
        "code": "ZC682",
        "path": "zero_optimization.zero_hpz_partition_size",
        "bad": {**ep(), "zero_optimization": {"stage": 3, "zero_hpz_partition_size": 2}},
        "good": {**ep(), "zero_optimization.stage": 3},
        "options": EIGHT,
        "parser": "accepts",
    },
    {
        "code": "ZC682",
        "path": "zero_optimization.zero_quantized_gradients",
        "bad": {**ep(), "zero_optimization": {"stage": 3, "zero_quantized_gradients": True}},
        "good": {**ep(), "zero_optimization.stage": 3},
        "options": EIGHT,
        "parser": "accepts",
    },
    {
        "code": "ZC683",
        "path": "zero_optimization.stage",
        "severity": WARNING,
        "bad": {"pipeline.activation_checkpoint_interval": 1, "zero_optimization.stage": 2},
        "good": {"pipeline.activation_checkpoint_interval": 1, "zero_optimization.stage": 1},
        "also": SCRIPT,
        "parser": "accepts",
    },
    {
        "code": "ZC683",
        "path": "wall_clock_breakdown",
        "severity": WARNING,
        "bad": {"pipeline.grad_partitioned": False, "wall_clock_breakdown": True},
        "good": {"pipeline.grad_partitioned": False},
        "also": SCRIPT,
        "parser": "accepts",
    },
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['code']}-{case['path']}")
def test_case(case: Mapping[str, Any], examine: Callable[[Mapping[str, Any]], None]) -> None:
    examine(case)


@pytest.mark.parametrize(
    ("value", "spec"),
    [
        ([2, -1], {}),
        ([2, 0], {}),
        ([], {}),
        ([-1, [4, 2]], {}),
        ([[4, 2], -1], {}),
        ([[], -1], {}),
        ([2, -2], {}),
        ([2, -1], {"partition_type": "row"}),
        ([2], {"partition_type": "row"}),
    ],
)
def test_shapes_agree_with_autotp(config_class: Any, value: list[Any], spec: dict[str, Any]) -> None:
    from deepspeed.module_inject.autotp_config import AutoTPConfig

    from zerocfg.deepspeed.check_parallel import shape_problem

    try:
        AutoTPConfig.from_dict({"layer_specs": [{"patterns": [".*"], "shape": value, **spec}]})
        refused = False
    except ValueError:
        refused = True
    assert bool(shape_problem(value, 1 if spec.get("partition_type") == "row" else 0)) == refused
