"""What becomes of each kind of leaf: outcome, code, reason, and the override that says it."""

# ruff: noqa: E501 - one case a line

from __future__ import annotations

from typing import Any

import pytest

from zerocfg.deepspeed.importer import Imported, import_config, modern
from zerocfg.diagnostics import ConfigProblems

MICRO = {"train_micro_batch_size_per_gpu": 1}
ZERO3 = {"stage": 3}


def told(config: dict[str, Any], **options: Any) -> dict[str, tuple[str, str, str]]:
    return {e.path: (e.outcome, e.code, e.reason) for e in import_config({**MICRO, **config}, **options).entries}


def overrides(config: dict[str, Any], **options: Any) -> list[str]:
    """Without those of an empty config."""
    plain = import_config({}, **options).overrides
    return [line for line in import_config(config, **options).overrides if line not in plain]


TEMPLATE: dict[str, Any] = {
    "fp16": {"enabled": "auto", "loss_scale": 0},
    "bf16": {"enabled": "auto"},
    "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"}},
    "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": "auto", "warmup_max_lr": "auto", "warmup_num_steps": "auto"}},
    "zero_optimization": {
        "stage": 3,
        "offload_optimizer": {"device": "cpu", "pin_memory": True},
        "overlap_comm": True,
        "sub_group_size": 1e9,
        "reduce_bucket_size": "auto",
        "stage3_prefetch_bucket_size": "auto",
    },
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": "auto",
    "steps_per_print": 2000,
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
}
ARGUMENTS = "--per_device_train_batch_size 8 --bf16 --learning_rate 2e-5 --warmup_steps 100 --max_grad_norm 0.5 --num_gpus 8"


def test_a_whole_template_with_the_trainers_arguments() -> None:
    imported = import_config(TEMPLATE, arguments=ARGUMENTS.split(), model={"model": "llama2_7b"})
    assert imported.overrides == [
        "model=llama2_7b",
        "parallelism=zero3",
        "offload=optimizer",
        "precision=bf16",
        "activation_checkpointing=none",
        "optimizer=adamw",
        "scheduler=warmup_lr",
        "hardware.gpus_per_node=8",
        "batch.micro_batch_size=8",
        "batch.gradient_accumulation_steps=1",
        "parallelism.overlap_comm=true",
        # the model would decide these, but the file does not leave them to it
        "parallelism.stage3_param_persistence_threshold=100000",
        "parallelism.stage3_max_live_parameters=1000000000",
        "parallelism.stage3_max_reuse_distance=1000000000",
        "parallelism.sub_group_size=1000000000",
        # else the repeated block would become a leaf module
        "parallelism.leaf_module_classes=[]",
        "optimizer.lr=2e-05",
        "optimizer.betas=[0.9,0.999]",
        "optimizer.eps=1e-08",
        "optimizer.weight_decay=0.0",
        "optimizer.gradient_clipping=0.5",
        "scheduler.warmup_num_steps=100",
        "scheduler.warmup_max_lr=2e-05",
        "scheduler.warmup_type=log",
        "+deepspeed.steps_per_print=2000",
    ]
    assert imported.kept == {"steps_per_print": 2000}
    assert [(e.path, e.outcome, e.code, e.reason) for e in imported.entries] == [
        ("fp16.enabled", "migrated", "ZC904", "auto became false from --fp16, the Trainer's default; precision=bf16"),
        ("fp16.loss_scale", "refused", "ZC906", "no effect while fp16.enabled is off"),
        ("bf16.enabled", "migrated", "ZC904", "auto became true from --bf16; precision=bf16"),
        ("optimizer.type", "expressed", "", "optimizer=adamw"),
        ("optimizer.params.lr", "migrated", "ZC904", "auto became 2e-05 from --learning_rate; optimizer.lr"),
        (
            "optimizer.params.betas",
            "migrated",
            "ZC904",
            "auto became [0.9, 0.999] from --adam_beta1 and --adam_beta2, the Trainer's default; optimizer.betas",
        ),
        ("optimizer.params.eps", "migrated", "ZC904", "auto became 1e-08 from --adam_epsilon, the Trainer's default; optimizer.eps"),
        (
            "optimizer.params.weight_decay",
            "migrated",
            "ZC904",
            "auto became 0.0 from --weight_decay, the Trainer's default; optimizer.weight_decay",
        ),
        ("scheduler.type", "expressed", "", "scheduler=warmup_lr"),
        (
            "scheduler.params.warmup_min_lr",
            "migrated",
            "ZC904",
            "auto became 0 from the Trainer, which always takes 0; scheduler.warmup_min_lr",
        ),
        ("scheduler.params.warmup_max_lr", "migrated", "ZC904", "auto became 2e-05 from --learning_rate; scheduler.warmup_max_lr"),
        ("scheduler.params.warmup_num_steps", "migrated", "ZC904", "auto became 100 from --warmup_steps; scheduler.warmup_num_steps"),
        ("zero_optimization.stage", "expressed", "", "parallelism=zero3"),
        ("zero_optimization.offload_optimizer.device", "expressed", "", "offload=optimizer"),
        ("zero_optimization.offload_optimizer.pin_memory", "expressed", "", "offload.pin_memory"),
        ("zero_optimization.overlap_comm", "expressed", "", "parallelism.overlap_comm"),
        ("zero_optimization.sub_group_size", "expressed", "", "parallelism.sub_group_size"),
        ("zero_optimization.reduce_bucket_size", "migrated", "ZC904", "auto: hidden_size^2, by the model"),
        ("zero_optimization.stage3_prefetch_bucket_size", "migrated", "ZC904", "auto: 0.9 x hidden_size^2, by the model"),
        (
            "gradient_accumulation_steps",
            "migrated",
            "ZC904",
            "auto became 1 from --gradient_accumulation_steps, the Trainer's default; batch.gradient_accumulation_steps",
        ),
        ("gradient_clipping", "migrated", "ZC904", "auto became 0.5 from --max_grad_norm; optimizer.gradient_clipping"),
        ("steps_per_print", "kept", "", "no group says it; under deepspeed"),
        ("train_batch_size", "migrated", "ZC904", "auto: micro x accumulation x ranks"),
        (
            "train_micro_batch_size_per_gpu",
            "migrated",
            "ZC904",
            "auto became 8 from --per_device_train_batch_size; batch.micro_batch_size",
        ),
    ]
    assert imported.any_world_size
    assert imported.notes == ()


def test_the_shape_of_the_json() -> None:
    told = import_config({"train_batch_size": 4, "foo": {"a": [1]}, "steps_per_print": 5}).as_dict()
    assert list(told) == ["overrides", "kept", "entries", "world_sizes"]
    assert told["kept"] == {"steps_per_print": 5}
    assert told["world_sizes"] == [1, 2, 4]
    assert [list(entry) for entry in told["entries"]] == [["path", "outcome", "code", "reason", "value"]] * 3
    assert [entry["path"] for entry in told["entries"]] == ["train_batch_size", "foo.a", "steps_per_print"]


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


def test_batch_numbers_that_fit_no_ranks() -> None:
    entry = import_config({"train_batch_size": 4, "gradient_accumulation_steps": 8}).entries[0]
    assert (entry.outcome, entry.code) == ("refused", "ZC642")
    assert entry.reason == "is no multiple of gradient_accumulation_steps: no number of ranks fits; 4 / 8 = 0.5; try: train_batch_size=8"


def test_batch_numbers_that_do_not_fit_the_ranks_given() -> None:
    entry = import_config({"train_batch_size": 30, "train_micro_batch_size_per_gpu": 2}, world_size=8).entries[0]
    assert (entry.outcome, entry.code) == ("refused", "ZC641")
    assert "train_batch_size=16 or train_batch_size=32" in entry.reason


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        ({"train_batch_size": 6}, [1, 2, 3, 6]),
        ({"train_batch_size": 12, "train_micro_batch_size_per_gpu": 2}, [1, 2, 3, 6]),
        ({"train_batch_size": 12, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2}, [3]),
        ({"train_batch_size": 12, "tensor_parallel": {"autotp_size": 2}}, [2, 4, 6, 12]),
        ({"train_batch_size": 8192, "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1}, [8192]),
        ({"train_batch_size": 8, "sequence_parallel_size": 2, "data_parallel_size": 4}, [8]),
        ({"train_batch_size": 16, "zero_optimization": {"stage": 3, "zero_hpz_partition_size": 4}}, [1, 2, 4, 8, 16]),
    ],
)
def test_the_world_sizes_that_the_numbers_allow(config: dict[str, Any], wanted: list[int]) -> None:
    imported = import_config(config)
    assert list(imported.world_sizes) == wanted
    assert not imported.any_world_size


def test_without_a_global_batch_any_number_of_ranks_fits() -> None:
    imported = import_config(MICRO)
    assert imported.any_world_size
    assert list(imported.world_sizes) == list(range(1, 1025))


def hardware(*words: str, **options: Any) -> list[str]:
    return [line for line in import_config(MICRO, arguments=words, **options).overrides if line.startswith("hardware")]


def test_the_launchers_arguments_and_world_size_become_hardware() -> None:
    assert hardware("--num_gpus", "4") == ["hardware.gpus_per_node=4"]
    assert hardware("--num_gpus", "8", "--num_nodes", "2") == ["hardware.num_nodes=2", "hardware.gpus_per_node=8"]
    assert hardware("--num_processes", "8", "--num_machines", "2") == ["hardware.num_nodes=2", "hardware.gpus_per_node=4"]
    assert hardware(world_size=4) == ["hardware.gpus_per_node=4"]
    assert hardware(world_size=32) == ["hardware.num_nodes=4", "hardware.gpus_per_node=8"]
    assert hardware() == []


def test_two_different_world_sizes_are_an_error() -> None:
    with pytest.raises(ConfigProblems) as caught:
        import_config(MICRO, arguments=["--num_gpus", "4"], world_size=8)
    assert [d.code for d in caught.value.diagnostics] == ["ZC923"]


def test_an_argument_against_the_file_is_an_error_as_in_the_trainer() -> None:
    config = {"train_micro_batch_size_per_gpu": 4, "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "betas": [0.9, 0.99]}}}
    words = ["--per_device_train_batch_size", "8", "--learning_rate", "1e-4", "--adam_beta2", "0.95"]
    with pytest.raises(ConfigProblems) as caught:
        import_config(config, arguments=words)
    assert [(d.code, d.path) for d in caught.value.diagnostics] == [
        ("ZC922", "optimizer.params.betas"),
        ("ZC922", "train_micro_batch_size_per_gpu"),
    ]


def test_arguments_decide_what_accelerate_writes_itself() -> None:
    assert overrides({}, arguments=["--per_device_train_batch_size", "4", "--bf16"]) == []
    lines = import_config({}, arguments=["--per_device_train_batch_size", "4", "--bf16"]).overrides
    assert {"precision=bf16", "batch.micro_batch_size=4"} <= set(lines)


def test_an_argument_that_decides_nothing_is_noted() -> None:
    notes = import_config(MICRO, arguments=["--learning_rate", "1e-3"]).notes
    assert [(note.code, note.path) for note in notes if note.code == "ZC921"] == [("ZC921", "--learning_rate")]


def test_warmup_ratio_and_max_steps() -> None:
    config = {"scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": "auto", "total_num_steps": "auto"}}}
    lines = overrides(config, arguments=["--warmup_ratio", "0.03", "--max_steps", "1010"])
    assert {"scheduler.warmup_num_steps=31", "scheduler.total_num_steps=1010"} <= set(lines)
    assert "train.steps=1010" in import_config(config, arguments=["--max_steps", "1010"]).overrides


def test_a_length_left_open_is_longer_than_the_warmup() -> None:
    config = {"scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 500, "total_num_steps": "auto"}}}
    assert "train.steps=5000" in overrides(config)
    config["scheduler"]["params"]["warmup_num_steps"] = 50
    assert not [line for line in overrides(config) if line.startswith("train.")]


def test_what_the_file_leaves_out_is_a_warning_not_a_guess() -> None:
    notes = {
        note.code: (note.severity.label, note.path)
        for note in import_config({"scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 1}}}).notes
    }
    assert notes == {
        "ZC640": ("warning", "train_micro_batch_size_per_gpu"),
        "ZC657": ("warning", "scheduler.params.cycle_max_lr"),
        "ZC671": ("warning", "gradient_clipping"),
    }  # fmt: skip


def test_autotp_counts_its_ranks_in_the_batch() -> None:
    config = {"train_batch_size": 16, "tensor_parallel": {"autotp_size": 2}}
    assert told_of(import_config(config), "train_batch_size") == ("refused", "ZC643")
    imported = import_config(config, world_size=4)
    assert told_of(imported, "train_batch_size") == ("migrated", "ZC909")
    assert {"batch.micro_batch_size=4", "batch.gradient_accumulation_steps=1"} <= set(imported.overrides)


def told_of(imported: Imported, path: str) -> tuple[str, str]:
    return next((e.outcome, e.code) for e in imported.entries if e.path == path)


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
