"""What becomes of each kind of leaf: outcome, code, reason, and the override that says it."""

# ruff: noqa: E501 - one case a line

from __future__ import annotations

from typing import Any

import pytest

from tests.deepspeed.importer.asked import MICRO, ZERO3, overrides, told
from zerocfg.deepspeed.importer import import_config, modern

EXPRESSED: list[tuple[dict[str, Any], list[str]]] = [
    ({"zero_optimization": {"stage": 1}}, ["parallelism=zero1", "parallelism.overlap_comm=false"]),
    ({"zero_optimization": {"stage": 2, "overlap_comm": True}}, ["parallelism=zero2", "parallelism.overlap_comm=true"]),
    ({"zero_optimization": ZERO3}, ["parallelism=zero3", "parallelism.leaf_module_classes=[]"]),
    (
        {"zero_optimization": {**ZERO3, "offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "cpu", "pin_memory": False}}},
        ["parallelism=zero3", "offload=all", "parallelism.leaf_module_classes=[]", "+deepspeed.zero_optimization.offload_param.pin_memory=false"],
    ),
    (
        {"zero_optimization": {**ZERO3, "offload_param": {"device": "cpu"}}},
        ["parallelism=zero3", "offload.optimizer=none", "offload.param=cpu", "parallelism.leaf_module_classes=[]"],
    ),
    (
        {"zero_optimization": {**ZERO3, "offload_optimizer": {"device": "nvme", "nvme_path": "/a b", "buffer_count": 8}}},
        [
            "parallelism=zero3",
            "offload=optimizer_nvme",
            'offload.nvme_path="/a b"',
            "offload.optimizer_buffer_count=8",
            "offload.pipeline_read=false",
            "offload.pipeline_write=false",
            "parallelism.leaf_module_classes=[]",
        ],
    ),
    ({"fp16": {"enabled": True, "loss_scale_window": 500}}, ["precision=fp16", "precision.loss_scale_window=500"]),
    ({"fp16": True}, ["precision=fp16"]),
    ({"bf16": {"enabled": True}, "communication_data_type": "fp32"}, ["precision=bf16", "precision.communication_data_type=fp32"]),
    (
        {"bf16": {"enabled": True}, "zero_optimization": {"stage": 1}, "data_types": {"grad_accum_dtype": "float32"}},
        ["parallelism=zero1", "precision=bf16", "precision.grad_accum_dtype=fp32", "parallelism.overlap_comm=false"],
    ),
    (
        {
            "bf16": {"enabled": True, "bf16_master_weights_and_grads": True, "bf16_optimizer_states": True},
            "zero_optimization": {"stage": 2, "overlap_comm": True},
        },
        ["parallelism=zero2", "precision=bf16_lowmem", "parallelism.overlap_comm=true"],
    ),
    ({"train_batch_size": 32}, ["batch.global_batch_size=32", "batch.gradient_accumulation_steps=1"]),
    (
        {"train_batch_size": 32, "train_micro_batch_size_per_gpu": 2},
        ["batch.global_batch_size=32", "batch.micro_batch_size=2"],
    ),
    ({"optimizer": {"type": "Lion", "params": {"lr": 1e-4}}}, ["optimizer=lion", "optimizer.lr=0.0001", "optimizer.betas=null", "optimizer.weight_decay=null"]),
    ({"optimizer": {"type": "SGD", "params": {"lr": 0.1}}}, ["+deepspeed.optimizer.type=SGD", "+deepspeed.optimizer.params.lr=0.1"]),
    (
        {"optimizer": {"type": "Adam", "params": {"lr": 1e-3, "torch_adam": True}}},
        [
            "optimizer=adam",
            "optimizer.lr=0.001",
            "optimizer.betas=null",
            "optimizer.eps=null",
            "optimizer.weight_decay=null",
            "optimizer.adam_w_mode=null",
            "+deepspeed.optimizer.params.torch_adam=true",
        ],
    ),
    (
        {"scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 10}}},
        ["+deepspeed.scheduler.type=WarmupLR", "+deepspeed.scheduler.params.warmup_num_steps=10"],
    ),
    (
        {"scheduler": {"type": "WarmupCosineLR", "params": {"total_num_steps": 5000}}},
        ["scheduler=warmup_cosine", "scheduler.warmup_num_steps=1000", "scheduler.warmup_type=log", "scheduler.total_num_steps=5000", "scheduler.cos_min_ratio=0.0001"],
    ),
    (
        {"scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.1, "cycle_max_lr": 1}}},
        [
            "scheduler=one_cycle",
            "scheduler.cycle_min_lr=0.1",
            "scheduler.cycle_max_lr=1",
            "scheduler.cycle_first_step_size=2000",
            "+deepspeed.scheduler.params.cycle_momentum=true",
        ],
    ),
    (
        {"activation_checkpointing": {"cpu_checkpointing": True, "partition_activations": False}},
        ["activation_checkpointing=full", "activation_checkpointing.cpu_checkpointing=true"],
    ),
    ({"tensor_parallel": {"autotp_size": 2}}, ["parallelism.tensor_parallel_degree=2"]),
    (
        {"sequence_parallel_size": 2, "data_parallel_size": 4, "seq_parallel_communication_data_type": "bf16"},
        ["precision.communication_data_type=bf16", "parallelism.sequence_parallel_degree=2"],
    ),
    ({"zero_optimization": {**ZERO3, "leaf_module": {"classes": ["Block"]}}}, ["parallelism=zero3", "parallelism.leaf_module_classes=[Block]"]),
    ({"csv_monitor": {"enabled": True, "job_name": "on"}}, ["+deepspeed.csv_monitor.enabled=true", '+deepspeed.csv_monitor.job_name="on"']),
]  # fmt: skip


@pytest.mark.parametrize(("config", "wanted"), EXPRESSED, ids=str)
def test_what_the_groups_say(config: dict[str, Any], wanted: list[str]) -> None:
    assert overrides(config) == wanted


AdamW = {"type": "AdamW", "params": {"lr": 1e-4}}
OUTCOMES: list[tuple[dict[str, Any], str, str, str, str]] = [
    # what DeepSpeed ignores in silence
    ({"max_grad_norm": 1.0}, "max_grad_norm", "refused", "ZC610", "use gradient_clipping"),
    ({"gradient_cliping": 1.0}, "gradient_cliping", "refused", "ZC601", "perhaps gradient_clipping"),
    ({"offload_optimizer": {"device": "cpu"}}, "offload_optimizer.device", "refused", "ZC602", "move it to zero_optimization.offload_optimizer"),
    ({"optimizer": {**AdamW, "eps": 1e-6}}, "optimizer.eps", "refused", "ZC602", "move it to optimizer.params.eps"),
    ({"aio": {"thread_count": 1}}, "aio.thread_count", "refused", "ZC603", "use aio.intra_op_parallelism"),
    ({"_comment": "x"}, "_comment", "refused", "ZC611", "a comment"),
    ({"fp16.enabled": True}, '"fp16.enabled"', "refused", "ZC602", "move it to fp16.enabled"),
    ({"bf16": {"enabled": False}, "bfloat16": {"enabled": True}}, "bfloat16.enabled", "refused", "ZC612", "bf16 is written too"),
    ({"bfloat16": {"enabled": True}}, "bfloat16.enabled", "expressed", "", "precision=bf16"),
    ({"zero_optimization": {"stage": 2, "sub_group_size": 5}}, "zero_optimization.sub_group_size", "refused", "ZC630", "only stage 3"),
    ({"zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}}}, "zero_optimization.offload_param.device", "refused", "ZC632", "stage=3"),
    ({"zero_optimization": {"allgather_partitions": True}}, "zero_optimization.allgather_partitions", "refused", "ZC607", "never uses it"),
    ({"zero_optimization": {**ZERO3, "offload_param": {"device": "none", "pin_memory": True}}}, "zero_optimization.offload_param.pin_memory", "refused", "ZC906", "offload_param.device is not cpu or nvme"),
    ({"fp16": {"enabled": False, "loss_scale": 0}}, "fp16.loss_scale", "refused", "ZC906", "no effect while fp16.enabled is off"),
    ({"bf16": {"enabled": True, "loss_scale": 0}}, "bf16.loss_scale", "refused", "ZC602", "bfloat16 has no loss scaling"),
    ({"aio": {"block_size": 5}}, "aio.block_size", "refused", "ZC631", "it needs zero_optimization.offload_optimizer.device=nvme"),
    ({"aio": {"block_size": 1048576}}, "aio.block_size", "refused", "ZC631", "offload_optimizer.device is not nvme"),
    ({"optimizer": {"params": {"lr": 1}}}, "optimizer.params.lr", "refused", "ZC631", "optimizer.type"),
    ({"activation_checkpointing": {"number_checkpoints": 4}}, "activation_checkpointing.number_checkpoints", "refused", "ZC315", "contiguous_memory_optimization"),
    # what DeepSpeed fails on
    ({"fp16": {"enabled": True}, "bf16": {"enabled": True}}, "fp16.enabled", "refused", "ZC661", "fp16.enabled=false"),
    ({"fp16": {"enabled": True, "hysteresis": 3}, "bf16": {"enabled": True}}, "fp16.hysteresis", "refused", "ZC661", "cannot be on together"),
    ({"optimizer": {"type": "OneBitAdam", "params": {"lr": 1}}}, "optimizer.type", "refused", "ZC645", "optimizer.type="),
    ({"optimizer": {"type": "OneBitAdam", "params": {"lr": 1}}}, "optimizer.params.lr", "refused", "ZC645", "optimizer.type="),
    ({"zero_optimization": {**ZERO3, "offload_optimizer": {"device": "nvme"}}}, "zero_optimization.offload_optimizer.device", "refused", "ZC635", "nvme_path is missing"),
    ({"zero_optimization": {"prefetch_bucket_size": 5, "stage3_prefetch_bucket_size": 6, **ZERO3}}, "zero_optimization.prefetch_bucket_size", "refused", "ZC905", "stage3_prefetch_bucket_size is written too"),
    ({"zero_optimization": {"stage": 5}}, "zero_optimization.stage", "refused", "ZC626", "none of the choices"),
    ({"zero_optimization": {"stage": 0, "offload_optimizer": {"device": "cpu"}}}, "zero_optimization.offload_optimizer.device", "refused", "ZC634", "needs ZeRO"),
    ({"gradient_clipping": -1}, "gradient_clipping", "refused", "ZC625", "trains without clipping"),
    ({"gradient_accumulation_steps": 1.5}, "gradient_accumulation_steps", "refused", "ZC627", "whole number"),
    ({"steps_per_print": 10**20}, "steps_per_print", "refused", "ZC625", ""),
    ({"autotuning": {"enabled": False, "arg_mappings": {"a": [10**20]}}}, "autotuning.arg_mappings.a", "refused", "ZC106", "64 bits"),
    ({"elasticity": {"enabled": True}}, "elasticity.enabled", "refused", "ZC603", "makes DeepSpeed raise"),
    ({"scheduler": {"type": "StepLR", "params": {"gamma": 0.1}}}, "scheduler.type", "refused", "ZC657", "scheduler.params is missing: the engine raises for StepLR without it"),
    ({"scheduler": {"type": "WarmupCosineLR", "params": {"total_num_steps": 9000, "warmup_max_lr": 1}}}, "scheduler.params.warmup_max_lr", "refused", "ZC656", "does not take it"),
    # what the groups refuse, or cannot say
    ({"sequence_parallel_size": 2}, "sequence_parallel_size", "refused", "ZC644", "it only divides the batch"),
    ({"tensor_parallel": {"autotp_size": 2}, "sequence_parallel_size": 2, "data_parallel_size": 2}, "data_parallel_size", "refused", "ZC216", "the same ranks"),
    ({"tensor_parallel": {"autotp_size": 2}, "zero_optimization": {**ZERO3, "zero_hpz_partition_size": 4}}, "zero_optimization.zero_hpz_partition_size", "refused", "ZC318", "autotp_size"),
    ({"train_batch_size": 8, "tensor_parallel": {"autotp_size": 3}}, "tensor_parallel.autotp_size", "refused", "ZC681", "(1, 2, 4, 8)"),
    ({"optimizer": {"type": "Lamb"}, "zero_allow_untested_optimizer": True, "zero_optimization": {"stage": 1, "offload_optimizer": {"device": "cpu"}}}, "optimizer.type", "refused", "ZC320", "no CPU version"),
    ({"bf16": {"enabled": True, "bf16_master_weights_and_grads": True}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}, "optimizer": AdamW}, "bf16.bf16_master_weights_and_grads", "refused", "ZC907", "precision=bf16_lowmem"),
    ({"zero_optimization": {"stage": 1}, "data_types": {"grad_accum_dtype": "int8"}}, "data_types.grad_accum_dtype", "refused", "ZC907", "fp32, fp16 or bf16"),
    ({"autotuning": {"enabled": False, "arg_mappings": {"no name": 1}}}, 'autotuning.arg_mappings."no name"', "refused", "ZC907", "no override can spell"),
    # another writing of the same
    ({"bf16": None}, "bf16", "migrated", "ZC900", "the same as leaving it out"),
    ({"gradient_accumulation_steps": "8"}, "gradient_accumulation_steps", "migrated", "ZC901", "the text '8' became 8; DeepSpeed keeps the text and fails on it; batch.gradient_accumulation_steps"),
    ({"wall_clock_breakdown": "false"}, "wall_clock_breakdown", "migrated", "ZC901", "the text 'false' became false; DeepSpeed took the text for true; under deepspeed"),
    ({"zero_optimization": {"stage": "3"}}, "zero_optimization.stage", "migrated", "ZC901", "'3' became 3"),
    ({"zero_optimization": {**ZERO3, "stage3_prefetch_bucket_size": 15099494.4}}, "zero_optimization.stage3_prefetch_bucket_size", "migrated", "ZC901", "15099494.4 became 15099494"),
    ({"fp16": True}, "fp16", "migrated", "ZC902", "became fp16.enabled=true"),
    ({"zero_optimization": True}, "zero_optimization", "migrated", "ZC902", "the old form of stage 1; parallelism=zero1"),
    ({"zero_optimization": {"stage": 2, "cpu_offload": True}}, "zero_optimization.cpu_offload", "migrated", "ZC902", "the old form of offload_optimizer.device=cpu; offload=optimizer"),
    ({"zero_optimization": {"stage": 2, "cpu_offload": True, "offload_optimizer": {"device": "cpu"}}}, "zero_optimization.cpu_offload", "refused", "ZC606", "written too"),
    ({"zero_optimization": {**ZERO3, "stage3_gather_fp16_weights_on_model_save": True}}, "zero_optimization.stage3_gather_fp16_weights_on_model_save", "migrated", "ZC902", "became stage3_gather_16bit_weights_on_model_save"),
    ({"optimizer": {"type": "AdamW", "params": {"lr": 1, "max_grad_norm": 0.5}}}, "optimizer.params.max_grad_norm", "migrated", "ZC647", "became gradient_clipping; optimizer.gradient_clipping"),
    ({"curriculum_learning": {"enabled": False, "params": 3}}, "curriculum_learning.params", "migrated", "ZC903", "it was off"),
    ({"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "nvme", "nvme_path": "/n"}}}, "zero_optimization.offload_optimizer.device", "migrated", "ZC633", "at stage 2 nvme means cpu: became cpu; stage 3 swaps to NVMe; offload=optimizer"),
    ({"scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 0}}}, "scheduler.params.warmup_num_steps", "migrated", "ZC657", "0 became 2"),
    ({"scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 100.0}}}, "scheduler.params.warmup_num_steps", "migrated", "ZC901", "100.0 became 100"),
    ({"tensor_parallel": {"autotp_size": 1}}, "tensor_parallel.autotp_size", "migrated", "ZC902", "1 is off"),
    ({"zero_optimization": {**ZERO3, "zero_hpz_partition_size": 0}}, "zero_optimization.zero_hpz_partition_size", "migrated", "ZC902", "0 is off"),
    ({"train_batch_size": 8, "gradient_accumulation_steps": 2, "tensor_parallel": {"autotp_size": 2}}, "train_batch_size", "migrated", "ZC909", "micro x accumulation says it"),
    ({"optimizer": {"type": "Muon", "params": {"lr": 1e-3}}, "zero_optimization": ZERO3}, "optimizer.type", "migrated", "ZC653", "reduce_scatter=false, which is added"),
    (
        {"tensor_parallel": {"autotp_size": 2, "partition_config": {"layer_specs": [{"patterns": ["a"], "typo": 1}]}}},
        "tensor_parallel.partition_config.layer_specs", "migrated", "ZC601", "layer_specs.0.typo is left out",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("config", "path", "outcome", "code", "reason"), OUTCOMES, ids=[f"{case[3]}-{case[1]}" for case in OUTCOMES])
def test_what_becomes_of_a_leaf(config: dict[str, Any], path: str, outcome: str, code: str, reason: str) -> None:
    found = told(config)[path]
    assert found[:2] == (outcome, code)
    assert reason in found[2]


def test_sections_that_act_by_being_there_stay_when_a_mistake_in_them_goes() -> None:
    imported = import_config({**MICRO, "checkpoint": {"writer": {"typo": 1}}, "datastates_ckpt": {}})
    assert imported.kept == {"checkpoint": {"writer": {}}, "datastates_ckpt": {}}


def test_modern_is_the_file_in_todays_words() -> None:
    old = {"zero_optimization": {"cpu_offload": True, "stage": "2"}, "bfloat16": {"enabled": "true"}, "foo": None, "aio": None}
    assert modern(old) == {
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}},
        "bf16": {"enabled": True},
        "foo": None,
    }
