"""Activation checkpointing, autotuning, compile, hybrid engine, data efficiency."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from zerocfg.diagnostics import Severity

WARNING = Severity.WARNING
FOUR = {"world_size": 4}
CPU = {"device": "cpu", "pin_memory": True}
METRIC = {
    "min_difficulty": 8,
    "max_difficulty": 64,
    "schedule_type": "fixed_linear",
    "schedule_config": {"total_curriculum_step": 100, "difficulty_step": 8},
}


def tp(size: int = 2, **settings: Any) -> dict[str, Any]:
    return {"tensor_parallel": {"autotp_size": size, **settings}}


def ep(size: int = 2, **settings: Any) -> dict[str, Any]:
    return {"expert_parallel": {"enabled": True, "autoep_size": size, **settings}}


def compiled(stage: int, offload: Any = None, **settings: Any) -> dict[str, Any]:
    zero = {"stage": stage, **({"offload_optimizer": offload} if offload else {})}
    return {"zero_optimization": zero, "compile": {"deepcompile": True, **settings}}


def curriculum(metric: Any = METRIC, enabled: bool = True) -> dict[str, Any]:
    section = {"enabled": enabled, **({"curriculum_metrics": {"seqlen": metric}} if metric else {})}
    return {"data_efficiency": {"enabled": True, "data_sampling": {"enabled": True, "curriculum_learning": section}}}


def batching(**settings: Any) -> dict[str, Any]:
    section = {"enabled": True, **settings}
    return {"data_efficiency": {"enabled": True, "data_sampling": {"enabled": True, "dynamic_batching": section}}}


def ltd_schedule(enabled: bool) -> dict[str, Any]:
    ltd = {"enabled": True, "layer_token_lr_schedule": {"enabled": enabled}}
    return {"data_efficiency": {"enabled": True, "data_routing": {"enabled": True, "random_ltd": ltd}}}


CURRICULUM = "data_efficiency.data_sampling.curriculum_learning"
SEQLEN = f"{CURRICULUM}.curriculum_metrics.seqlen"
SCRIPT = ("ZC613",)

CASES: list[dict[str, Any]] = [
    {
        "code": "ZC684",
        "path": "activation_checkpointing.contiguous_memory_optimization",
        "bad": {"activation_checkpointing.contiguous_memory_optimization": True},
        "good": {
            "activation_checkpointing": {"contiguous_memory_optimization": True, "partition_activations": True, "number_checkpoints": 4}
        },
        "also": SCRIPT,
        "parser": "accepts",
    },
    {
        "code": "ZC685",
        "path": "autotuning.enabled",
        "bad": {"autotuning.enabled": True},
        "good": {"autotuning.enabled": False},
        "parser": "accepts",
    },
    {"code": "ZC686", "path": "compile.deepcompile", "bad": compiled(0), "good": compiled(1), "also": SCRIPT, "parser": "accepts"},
    {
        "code": "ZC686",
        "path": "compile.deepcompile",
        "bad": compiled(1),
        "good": {"compile.deepcompile": False},
        "options": {"accelerator": "cpu"},
        "parser": "accepts",
    },
    {
        "code": "ZC686",
        "path": "compile.offload_opt_states",
        "bad": compiled(3, CPU, offload_opt_states=True),
        "good": compiled(3, offload_opt_states=True),
        "also": SCRIPT,
        "parser": "accepts",
    },
    {
        "code": "ZC686",
        "path": "compile.offload_activation",
        "bad": compiled(3, offload_activation=True, offload_parameters=True),
        "good": compiled(3, offload_activation=True),
        "also": SCRIPT,
        "parser": "accepts",
    },
    {
        "code": "ZC686",
        "path": "compile.offload_activation",
        "bad": {
            "compile": {"deepcompile": True, "offload_activation": True},
            "zero_optimization": {"stage": 3, "offload_param": CPU, "offload_optimizer": CPU},
        },
        "good": compiled(3, CPU, offload_activation=True),
        "also": SCRIPT,
        "parser": "accepts",
    },
    {
        "code": "ZC686",
        "path": "compile.passes",
        "bad": {**tp(), "compile.passes": ["autotp", "z1"]},
        "good": {**tp(), "compile.passes": ["autotp"]},
        "also": SCRIPT,
        "options": FOUR,
        "parser": "accepts",
    },
    {
        "code": "ZC686",
        "path": "compile.passes",
        "bad": {"compile.passes": ["autotp"]},
        "good": {**tp(), "compile.passes": ["autotp"]},
        "also": SCRIPT,
        "options": FOUR,
        "parser": "accepts",
    },
    {
        "code": "ZC686",
        "path": "compile.passes",
        "bad": {"sequence_parallel_size": 2, "compile.passes": ["autosp"], "zero_optimization.stage": 2},
        "good": {"sequence_parallel_size": 2, "compile.passes": ["autosp"], "zero_optimization.stage": 1},
        "also": SCRIPT,
        "options": FOUR,
        "parser": "accepts",
    },
    {
        "code": "ZC686",
        "path": "compile.autoep_non_moe",
        "bad": {**ep(), "compile.autoep_non_moe": True, "zero_optimization.stage": 3},
        "good": {**ep(), "compile.autoep_non_moe": True, "zero_optimization.stage": 2},
        "also": SCRIPT,
        "options": FOUR,
        "parser": "accepts",
    },
    {
        "code": "ZC687",
        "path": "hybrid_engine.enable_cuda_graph",
        "bad": {"hybrid_engine": {"enabled": True, "enable_cuda_graph": True}, "zero_optimization.stage": 3},
        "good": {"hybrid_engine": {"enabled": True, "enable_cuda_graph": True}, "zero_optimization.stage": 2},
        "parser": "accepts",
    },
    {
        "code": "ZC688",
        "path": "aio.use_gds",
        "bad": {
            "aio.use_gds": True,
            "zero_optimization": {"stage": 3, "offload_param": {"device": "nvme", "nvme_path": "/n", "pin_memory": True}},
        },
        "good": {"aio.use_gds": False},
        "options": {"accelerator": "cpu"},
        "parser": "raises",
    },
    {"code": "ZC689", "path": f"{CURRICULUM}.curriculum_metrics", "bad": curriculum(None), "good": curriculum(), "parser": "raises"},
    {"code": "ZC689", "path": CURRICULUM, "severity": WARNING, "bad": curriculum(enabled=False), "good": curriculum(), "parser": "accepts"},
    {
        "code": "ZC689",
        "path": f"{SEQLEN}.min_difficulty",
        "bad": curriculum({k: v for k, v in METRIC.items() if k != "min_difficulty"}),
        "good": curriculum(),
        "parser": "accepts",
    },
    {
        "code": "ZC689",
        "path": f"{SEQLEN}.schedule_config.root_degree",
        "bad": curriculum({**METRIC, "schedule_type": "fixed_root"}),
        "good": curriculum(),
        "parser": "accepts",
    },
    {
        "code": "ZC689",
        "path": f"{SEQLEN}.schedule_config.max_step",
        "bad": curriculum({**METRIC, "schedule_type": "fixed_discrete", "schedule_config": {"difficulty": [1, 2], "max_step": [5, 10]}}),
        "good": curriculum({**METRIC, "schedule_type": "fixed_discrete", "schedule_config": {"difficulty": [1, 2], "max_step": [5]}}),
        "parser": "accepts",
    },
    {
        "code": "ZC689",
        "path": f"{SEQLEN}.schedule_config.difficulty_step",
        "severity": WARNING,
        "bad": curriculum({**METRIC, "schedule_config": {"total_curriculum_step": 9, "difficulty_step": 5}}),
        "good": curriculum(),
        "parser": "accepts",
    },
    {
        "code": "ZC689",
        "path": "data_efficiency.data_sampling.dynamic_batching.max_tokens",
        "bad": batching(),
        "good": batching(max_tokens=4096),
        "parser": "raises",
    },
    {
        "code": "ZC689",
        "path": "data_efficiency.data_routing.random_ltd.layer_token_lr_schedule.enabled",
        "bad": ltd_schedule(True),
        "good": ltd_schedule(False),
        "parser": "accepts",
    },
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['code']}-{case['path']}")
def test_case(case: Mapping[str, Any], examine: Callable[[Mapping[str, Any]], None]) -> None:
    examine(case)
