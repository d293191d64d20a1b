"""Keys that DeepSpeed does not read where they stand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from zerocfg.deepspeed.check import check_deepspeed
from zerocfg.diagnostics import Severity

WARNING = Severity.WARNING

CASES: list[dict[str, Any]] = [
    {
        "code": "ZC601",
        "path": "gradient_acumulation_steps",
        "bad": {"gradient_acumulation_steps": 4},
        "good": {"gradient_accumulation_steps": 4},
        "parser": "accepts",
    },
    {
        "code": "ZC601",
        "path": "zero_optimization.overlap_com",
        "bad": {"zero_optimization.overlap_com": True},
        "good": {},
        "parser": "raises",
    },
    {"code": "ZC601", "path": "flops_profiler.top_module", "bad": {"flops_profiler.top_module": 3}, "good": {}, "parser": "accepts"},
    {
        "code": "ZC602",
        "path": "offload_optimizer",
        "bad": {"offload_optimizer.device": "cpu"},
        "good": {"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}},
        "parser": "accepts",
    },
    {
        "code": "ZC602",
        "path": "optimizer.eps",
        "bad": {"optimizer": {"type": "AdamW", "eps": 1e-6, "params": {}}},
        "good": {"optimizer": {"type": "AdamW", "params": {"eps": 1e-6}}},
        "parser": "accepts",
    },
    {
        "code": "ZC602",
        "path": "bf16.loss_scale",
        "bad": {"bf16": {"enabled": True, "loss_scale": 0}},
        "good": {"bf16.enabled": True},
        "parser": "raises",
    },
    {
        "code": "ZC602",
        "path": "stage3_max_live_parameters",
        "bad": {"stage3_max_live_parameters": 1000000},
        "good": {"zero_optimization": {"stage": 3, "stage3_max_live_parameters": 1000000}},
        "parser": "accepts",
    },
    {"code": "ZC603", "path": "elasticity", "bad": {"elasticity.enabled": False}, "good": {}, "parser": "raises"},
    {"code": "ZC603", "path": "curriculum_learning", "bad": {"curriculum_learning.enabled": False}, "good": {}, "parser": "raises"},
    {
        "code": "ZC603",
        "path": "zero_optimization.mics_shard_size",
        "bad": {"zero_optimization.mics_shard_size": 2},
        "good": {},
        "parser": "raises",
    },
    {"code": "ZC603", "path": "aio.thread_count", "bad": {"aio.thread_count": 2}, "good": {}, "parser": "accepts"},
    {
        "code": "ZC604",
        "path": "zero_optimization.stage3_max_live_parameters",
        "bad": {"zero_optimization": {"stage": 3, "stage3_max_live_parameters": 10, "max_live_parameters": 10}},
        "good": {"zero_optimization": {"stage": 3, "max_live_parameters": 10}},
        "parser": "raises",
    },
    {
        "code": "ZC605",
        "path": "zero_optimization.cpu_offload",
        "severity": WARNING,
        "bad": {"zero_optimization": {"stage": 2, "cpu_offload": True}},
        "good": {"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}},
        "parser": "accepts",
    },
    {
        "code": "ZC606",
        "path": "zero_optimization.cpu_offload",
        "bad": {"zero_optimization": {"stage": 2, "cpu_offload": True, "offload_optimizer": {"device": "cpu"}}},
        "good": {"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}},
        "parser": "raises",
    },
    {"code": "ZC607", "path": "pipeline.stages", "bad": {"pipeline.stages": 4}, "good": {}, "parser": "accepts"},
    {"code": "ZC607", "path": "disable_allgather", "bad": {"disable_allgather": True}, "good": {}, "parser": "accepts"},
    {
        "code": "ZC607",
        "path": "disable_allgather",
        "severity": WARNING,
        "bad": {"disable_allgather": False},
        "good": {},
        "parser": "accepts",
    },
    {
        "code": "ZC607",
        "path": "zero_optimization.legacy_stage1",
        "bad": {"zero_optimization": {"stage": 1, "legacy_stage1": True}},
        "good": {"zero_optimization.stage": 1},
        "parser": "accepts",
    },
    {"code": "ZC608", "path": "zero_optimization", "bad": {"zero_optimization": None}, "good": {}, "parser": "raises"},
    {"code": "ZC608", "path": "wall_clock_breakdown", "bad": {"wall_clock_breakdown": None}, "good": {}, "parser": "raises"},
    {
        "code": "ZC609",
        "path": "zero_optimization",
        "bad": {"zero_optimization": 2},
        "good": {"zero_optimization.stage": 2},
        "parser": "raises",
    },
    {"code": "ZC609", "path": "checkpoint.parallel_write", "bad": {"checkpoint.parallel_write": True}, "good": {}, "parser": "raises"},
    {"code": "ZC610", "path": "max_grad_norm", "bad": {"max_grad_norm": 1.0}, "good": {"gradient_clipping": 1.0}, "parser": "accepts"},
    {"code": "ZC610", "path": "zero3_init_flag", "bad": {"zero3_init_flag": True}, "good": {}, "parser": "accepts"},
    {"code": "ZC611", "path": "_comment", "severity": WARNING, "bad": {"_comment": "for the big machine"}, "good": {}, "parser": "accepts"},
    {
        "code": "ZC612",
        "path": "bfloat16",
        "bad": {"bf16": {"enabled": False}, "bfloat16": {"enabled": True}},
        "good": {"bf16.enabled": True},
        "parser": "accepts",
    },
    {
        "code": "ZC612",
        "path": "bfloat16",
        "severity": WARNING,
        "bad": {"bfloat16.enabled": True},
        "good": {"bf16.enabled": True},
        "parser": "accepts",
    },
    {
        "code": "ZC613",
        "path": "activation_checkpointing",
        "severity": WARNING,
        "bad": {"activation_checkpointing.partition_activations": True},
        "good": {"activation_checkpointing.partition_activations": False},
        "parser": "accepts",
    },
    {
        "code": "ZC613",
        "path": "compile.deepcompile",
        "severity": WARNING,
        "bad": {"zero_optimization.stage": 1, "compile.deepcompile": True},
        "good": {"zero_optimization.stage": 1},
        "parser": "accepts",
    },
    {
        "code": "ZC613",
        "path": "checkpoint.writer",
        "severity": WARNING,
        "bad": {"checkpoint.writer.decoupled": True},
        "good": {"checkpoint.writer": None},
        "parser": "accepts",
    },
    {
        "code": "ZC614",
        "path": "zero_optimization",
        "severity": WARNING,
        "bad": {"zero_optimization": True},
        "good": {"zero_optimization.stage": 1},
        "parser": "accepts",
    },
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['code']}-{case['path']}")
def test_case(case: Mapping[str, Any], examine: Callable[[Mapping[str, Any]], None]) -> None:
    examine(case)


def hints(config: dict[str, Any]) -> dict[str, str]:
    return {d.path: d.hint for d in check_deepspeed({"train_batch_size": 1, "gradient_clipping": 1.0, **config}, world_size=1)}


def test_each_misplaced_key_is_told_where_it_lives() -> None:
    assert (
        hints({"offload_optimizer": {"device": "cpu"}})["deepspeed.offload_optimizer"]
        == "move it to deepspeed.zero_optimization.offload_optimizer"
    )
    assert (
        hints({"optimizer": {"type": "Adam", "params": {}, "betas": [0.9, 0.99]}})["deepspeed.optimizer.betas"]
        == "move it to deepspeed.optimizer.params.betas"
    )
    assert hints({"max_grad_norm": 1.0})["deepspeed.max_grad_norm"] == "use deepspeed.gradient_clipping"
    assert (
        hints({"bf16": {"enabled": True, "loss_scale": 0}})["deepspeed.bf16.loss_scale"]
        == "remove deepspeed.bf16.loss_scale: bfloat16 has no loss scaling"
    )


def test_a_typing_mistake_is_told_the_nearest_name() -> None:
    assert (
        hints({"zero_optimization": {"stage": 1, "overlap_com": True}})["deepspeed.zero_optimization.overlap_com"]
        == "perhaps deepspeed.zero_optimization.overlap_comm"
    )


def test_a_key_with_dots_is_no_path() -> None:
    config = {"train_batch_size": 1, "gradient_clipping": 1.0, "zero_optimization.stage": 2}
    found = check_deepspeed(config, world_size=1)
    assert [(d.code, d.path, d.hint) for d in found] == [
        ("ZC602", "deepspeed.zero_optimization.stage", "move it to deepspeed.zero_optimization.stage")
    ]


def test_a_deprecated_key_is_told_its_replacement_with_the_value() -> None:
    config = {"zero_optimization": {"stage": 3, "cpu_offload_param": True, "stage3_gather_fp16_weights_on_model_save": True}}
    found = hints(config)
    assert found["deepspeed.zero_optimization.cpu_offload_param"] == 'deepspeed.zero_optimization.offload_param.device="cpu"'
    assert (
        found["deepspeed.zero_optimization.stage3_gather_fp16_weights_on_model_save"]
        == "deepspeed.zero_optimization.stage3_gather_16bit_weights_on_model_save=true"
    )


def test_deprecated_offload_counts_as_offload() -> None:
    config = {"train_batch_size": 1, "gradient_clipping": 1.0, "zero_optimization": {"stage": 2, "cpu_offload_param": True}}
    assert [d.code for d in check_deepspeed(config, world_size=1)] == ["ZC632"]


def test_the_prefix_is_the_callers() -> None:
    for prefix, path in (("deepspeed", "deepspeed.nope"), ("", "nope"), ("job.ds", "job.ds.nope")):
        found = check_deepspeed({"train_batch_size": 1, "gradient_clipping": 1.0, "nope": 1}, world_size=1, prefix=prefix)
        assert [d.path for d in found] == [path]


def test_removed_key_names_the_release_and_what_to_use() -> None:
    (found,) = check_deepspeed({"train_batch_size": 1, "gradient_clipping": 1.0, "aio": {"thread_count": 1}}, world_size=1)
    assert found.render() == (
        "error[ZC603] deepspeed.aio.thread_count=1 is ignored in silence\n"
        "  removed in 0.16.9: Threads of one request.\n"
        "  try: remove deepspeed.aio.thread_count; use deepspeed.aio.intra_op_parallelism"
    )
