"""Each code fails once, its correction is clean, and the tables of codes are complete and free of duplicates."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import zerocfg
from zerocfg.codes import PLAN_CODES
from zerocfg.compiler import examine
from zerocfg.diagnostics import Diagnostic

SRC = Path(zerocfg.__file__).parent
CODE = re.compile(r"ZC\d{3}")
KV_GROUPS = {"model.num_attention_heads": 48, "model.num_key_value_heads": 4, "model.hidden_size": 576, "model.sequence_length": 144}
DOCKER = {"container.kind": "docker", "container.image": "zerocfg"}


class Case(NamedTuple):
    """What makes a code appear, at which path, and what makes the same config clean."""

    code: str
    path: str
    bad: dict[str, Any]
    good: dict[str, Any]
    environ: dict[str, str] = {}  # noqa: RUF012 - never changed


def c(code: str, path: str, bad: dict[str, Any], good: dict[str, Any], **environ: str) -> Case:
    return Case(code, path, bad, good, environ)


CASES = [
    c("ZC101", "offload.nvme_path", {"offload.nvme_path": "???"}, {"offload.nvme_path": None}),
    c("ZC101", "deepspeed.steps_per_print", {"deepspeed.steps_per_print": "???"}, {"deepspeed.steps_per_print": 10}),
    c("ZC101", "model", {"model": "???"}, {"model": {}}),
    c("ZC103", "batch.micro_batch_size", {"batch.micro_batch_size": 2.5}, {"batch.micro_batch_size": 2.0}),
    c("ZC104", "optimizer.lr", {"optimizer.lr": float("nan")}, {"optimizer.lr": 1}),
    c("ZC104", "optimizer.lr", {"optimizer.lr": 10**400}, {"optimizer.lr": 10}),
    c("ZC104", "deepspeed.memory_breakdown", {"deepspeed.memory_breakdown": float("inf")}, {"deepspeed.memory_breakdown": True}),
    c("ZC105", "optimizer.leraning_rate", {"optimizer.leraning_rate": 1e-3}, {"optimizer.lr": 1e-3}),
    c("ZC105", "parallelism.stage", {"parallelism.stage": "3"}, {"parallelism.stage": 3}),
    c("ZC105", "precision.dtype", {"precision.dtype": None}, {"precision.dtype": "bf16"}),
    c("ZC105", "precision.dtype", {"precision.dtype": ["bf16"]}, {"precision.dtype": "bf16"}),
    c("ZC105", "env", {"env": [1]}, {"env": {"A": 1}}),
    c("ZC105", "deepspeed.1", {"deepspeed": {1: 2}}, {"deepspeed": {}}),
    c("ZC106", "batch.global_batch_size", {"batch.global_batch_size": 2**63}, {"batch.global_batch_size": 2**62}),
    c("ZC106", "batch.global_batch_size", {"batch.global_batch_size": 10**5000}, {"batch.global_batch_size": 1000}),
    c("ZC120", "hardware.gpus_per_node", {"hardware.gpus_per_node": None}, {"hardware.gpus_per_node": 8}),
    c("ZC120", "hardware.compute_capability", {"hardware.compute_capability": None}, {"hardware.compute_capability": "8.6"}),
    c("ZC121", "hardware.compute_capability", {"hardware.compute_capability": "sm_80"}, {"hardware.compute_capability": "10.3"}),
    c("ZC122", "hardware.num_nodes", {"hardware.num_nodes": 0}, {"hardware.num_nodes": 1}),
    c("ZC122", "hardware.gpus_per_node", {"hardware.gpus_per_node": 10**9}, {"hardware.gpus_per_node": 16}),
    c("ZC123", "hardware.memory_target", {"hardware.memory_target": 1.2}, {"hardware.memory_target": 1.0}),
    c("ZC123", "hardware.numa_nodes", {"hardware.numa_nodes": 0}, {"hardware.numa_nodes": 1}),
    c("ZC124", "parallelism.stage", {"parallelism.stage": None}, {"parallelism.stage": 1}),
    c("ZC124", "batch.micro_batch_size", {"batch.micro_batch_size": "auto"}, {"batch.micro_batch_size": 1}),
    c("ZC130", "model.vocab_size", {"model.vocab_size": None}, {"model.vocab_size": 2000}),
    c("ZC131", "model.hidden_size", {"model.num_attention_heads": 7}, {"model.num_attention_heads": 16}),
    c("ZC131", "model.num_hidden_layers", {"model.num_hidden_layers": 0}, {"model.num_hidden_layers": 1}),
    c("ZC140", "optimizer.type", {"optimizer.type": "Adamw2"}, {"optimizer.type": "adamw"}),
    c("ZC141", "optimizer.eps", {"optimizer.type": "Lion", "optimizer.eps": 1e-8}, {"optimizer.type": "Lion"}),
    c("ZC141", "optimizer.betas", {"optimizer.type": None, "optimizer.betas": [0.9, 0.95]}, {"optimizer.type": None}),
    c("ZC142", "optimizer.betas", {"optimizer.betas": [0.9, 1.0]}, {"optimizer.betas": [0.9, 0.99]}),
    c("ZC142", "optimizer.lr", {"optimizer.lr": 0.0}, {"optimizer.lr": 1e-5}),
    c("ZC142", "optimizer.gradient_clipping", {"optimizer.gradient_clipping": -1.0}, {"optimizer.gradient_clipping": 0.0}),
    c("ZC150", "scheduler.type", {"scheduler.type": "WarmupDecay"}, {"scheduler.type": "WarmupDecayLR"}),
    c(
        "ZC151",
        "scheduler.warmup_num_steps",
        {"scheduler.type": "WarmupLR", "scheduler.warmup_num_steps": 1},
        {"scheduler.type": "WarmupLR"},
    ),
    c(
        "ZC151",
        "scheduler.warmup_num_steps",
        {"scheduler.type": "WarmupCosineLR", "scheduler.warmup_num_steps": 100},
        {"scheduler.type": "WarmupCosineLR", "scheduler.warmup_num_steps": 99},
    ),
    c(
        "ZC151",
        "scheduler.total_num_steps",
        {"scheduler.type": "WarmupDecayLR", "scheduler.total_num_steps": 50},
        {"scheduler.type": "WarmupDecayLR", "scheduler.total_num_steps": 100},
    ),
    c(
        "ZC151",
        "scheduler.cycle_first_step_size",
        {"scheduler.type": "OneCycle", "scheduler.cycle_first_step_size": 0},
        {"scheduler.type": "OneCycle", "scheduler.cycle_first_step_size": 1},
    ),
    c(
        "ZC152",
        "scheduler.warmup_type",
        {"scheduler.type": "WarmupLR", "scheduler.warmup_type": "cosine"},
        {"scheduler.type": "WarmupLR", "scheduler.warmup_type": "log"},
    ),
    c(
        "ZC153",
        "scheduler.cos_min_ratio",
        {"scheduler.type": "WarmupCosineLR", "scheduler.cos_min_ratio": 1.5},
        {"scheduler.type": "WarmupCosineLR", "scheduler.cos_min_ratio": 1.0},
    ),
    c(
        "ZC153",
        "scheduler.warmup_min_lr",
        {"scheduler.type": "WarmupLR", "scheduler.warmup_min_lr": 1e-3},
        {"scheduler.type": "WarmupLR", "scheduler.warmup_min_lr": 1e-5},
    ),
    c("ZC154", "scheduler.warmup_num_steps", {"scheduler.warmup_num_steps": 100}, {"scheduler.type": "WarmupLR"}),
    c(
        "ZC154",
        "scheduler.cycle_max_lr",
        {"scheduler.type": "WarmupLR", "scheduler.cycle_max_lr": 1e-3},
        {"scheduler.type": "OneCycle", "scheduler.cycle_max_lr": 1e-3},
    ),
    c("ZC160", "deepspeed.zero_optimization.stage", {"deepspeed.zero_optimization.stage": 2}, {"parallelism.stage": 2}),
    c("ZC160", "deepspeed.bfloat16.enabled", {"deepspeed.bfloat16.enabled": False}, {"precision.dtype": "fp32"}),
    c("ZC160", "deepspeed.optimizer", {"deepspeed.optimizer": None}, {"optimizer.type": None}),
    c("ZC160", "deepspeed.optimizer.params.lr", {"deepspeed.optimizer.params.lr": 1.0}, {"optimizer.lr": 1.0}),
    c(
        "ZC161",
        "deepspeed.zero_optimization.param_persistence_threshold",
        {"deepspeed.zero_optimization": {"stage3_param_persistence_threshold": 1, "param_persistence_threshold": 2}},
        {"deepspeed.zero_optimization.param_persistence_threshold": 2},
    ),
    c("ZC201", "batch.global_batch_size", {"batch.global_batch_size": 100}, {"batch.global_batch_size": 96}),
    c("ZC202", "batch.micro_batch_size", {"batch.micro_batch_size": 0}, {"batch.micro_batch_size": 1}),
    c("ZC210", "parallelism.tensor_parallel_degree", {"parallelism.tensor_parallel_degree": 3}, {"parallelism.tensor_parallel_degree": 4}),
    c("ZC210", "parallelism.sequence_parallel_degree", {"parallelism.sequence_parallel_degree": 0}, {}),
    c(
        "ZC211",
        "parallelism.sequence_parallel_degree",
        {"parallelism.sequence_parallel_degree": 8, "model.num_attention_heads": 4},
        {"parallelism.sequence_parallel_degree": 4, "model.num_attention_heads": 4},
    ),
    c(
        "ZC212",
        "model.sequence_length",
        {"parallelism.sequence_parallel_degree": 8, "model.sequence_length": 100},
        {"parallelism.sequence_parallel_degree": 8, "model.sequence_length": 96},
    ),
    c(
        "ZC213",
        "parallelism.sequence_parallel_degree",
        {**KV_GROUPS, "hardware.gpus_per_node": 6, "parallelism.sequence_parallel_degree": 6},
        {**KV_GROUPS, "hardware.gpus_per_node": 6, "parallelism.sequence_parallel_degree": 2},
    ),
    c(
        "ZC214",
        "parallelism.tensor_parallel_degree",
        {"parallelism.tensor_parallel_degree": 4, "model.num_key_value_heads": 2},
        {"parallelism.tensor_parallel_degree": 2, "model.num_key_value_heads": 2},
    ),
    c("ZC215", "hardware.network", {"hardware.num_nodes": 2, "hardware.network": "none"}, {"hardware.num_nodes": 2}),
    c(
        "ZC216",
        "parallelism.sequence_parallel_degree",
        {"parallelism.tensor_parallel_degree": 2, "parallelism.sequence_parallel_degree": 2},
        {"parallelism.tensor_parallel_degree": 1, "parallelism.sequence_parallel_degree": 2},
    ),
    c("ZC221", "train.steps", {"train.steps": 0}, {"train.steps": 1}),
    c("ZC221", "torchrun.rdzv_port", {"torchrun.rdzv_port": 70000}, {"torchrun.rdzv_port": 7000}),
    c("ZC221", "torchrun.monitor_interval", {"torchrun.monitor_interval": 0.0}, {"torchrun.monitor_interval": 0.5}),
    c("ZC221", "communication.timeout_minutes", {"communication.timeout_minutes": 0}, {"communication.timeout_minutes": 60}),
    c("ZC222", "torchrun.signals_to_handle", {"torchrun.signals_to_handle": ["SIGKILL"]}, {"torchrun.signals_to_handle": ["SIGTERM"]}),
    c(
        "ZC223",
        "torchrun.numa_binding",
        {"hardware.accelerator": "cpu", "torchrun.numa_binding": "node"},
        {"hardware.accelerator": "cpu", "torchrun.numa_binding": "none"},
    ),
    c("ZC224", "communication.nccl_debug", {"communication.nccl_debug": "WARNING"}, {"communication.nccl_debug": "WARN"}),
    c("ZC225", "train.trackers", {"train.trackers": ["wand"]}, {"train.trackers": ["tensorboard", "wandb"]}),
    c("ZC240", "checkpoint.every_steps", {"checkpoint.every_steps": 0}, {"checkpoint.every_steps": 1}),
    c("ZC240", "checkpoint.every_minutes", {"checkpoint.every_minutes": 0.0}, {"checkpoint.every_minutes": 0.5}),
    c("ZC240", "checkpoint.keep_last", {"checkpoint.keep_last": -1}, {"checkpoint.keep_last": 0}),
    c("ZC240", "checkpoint.resume", {"checkpoint.resume": " "}, {"checkpoint.resume": "never"}),
    c("ZC241", "checkpoint.async_save", {"checkpoint.async_save": True}, {"checkpoint": {"async_save": True, "enabled": True}}),
    c(
        "ZC241",
        "checkpoint.every_steps",
        {"checkpoint": {"every_steps": 5, "enabled": False}},
        {"checkpoint.every_steps": 5},
    ),
    c(
        "ZC242",
        "checkpoint.consolidate_on_end",
        {"checkpoint": {"every_steps": 5, "consolidate_on_end": True}, "parallelism.tensor_parallel_degree": 2},
        {"checkpoint": {"every_steps": 5, "consolidate_on_end": True}},
    ),
    c(
        "ZC243",
        "torchrun.signals_to_handle",
        {"checkpoint.every_steps": 5, "torchrun.signals_to_handle": ["SIGTERM"]},
        {"checkpoint.every_steps": 5, "torchrun.signals_to_handle": ["SIGTERM", "SIGUSR2"]},
    ),
    c("ZC301", "parallelism.stage", {"parallelism.stage": 4}, {"parallelism.stage": 0}),
    c("ZC302", "offload.param", {"offload.param": "cpu", "parallelism.stage": 2}, {"offload.param": "cpu", "offload.optimizer": "cpu"}),
    c(
        "ZC303",
        "offload.optimizer",
        {"offload.optimizer": "nvme", "offload.nvme_path": "/nvme", "parallelism.stage": 2},
        {"offload.optimizer": "nvme", "offload.nvme_path": "/nvme"},
    ),
    c(
        "ZC304",
        "offload.optimizer",
        {"offload.optimizer": "cpu", "parallelism.stage": 0},
        {"offload.optimizer": "cpu", "parallelism.stage": 1},
    ),
    c("ZC305", "offload.nvme_path", {"offload.optimizer": "nvme"}, {"offload.optimizer": "nvme", "offload.nvme_path": "/nvme"}),
    c("ZC305", "offload.nvme_path", {"offload.nvme_path": "/nvme"}, {}),
    c(
        "ZC306",
        "parallelism.sub_group_size",
        {"parallelism.sub_group_size": 1000, "parallelism.stage": 2},
        {"parallelism.sub_group_size": 1000},
    ),
    c("ZC306", "parallelism.zero_quantized_weights", {"parallelism.zero_quantized_weights": True, "parallelism.stage": 1}, {}),
    c(
        "ZC307",
        "parallelism.zero_hpz_partition_size",
        {"parallelism.zero_hpz_partition_size": 3},
        {"parallelism.zero_hpz_partition_size": 4},
    ),
    c("ZC308", "offload.ratio", {"offload.ratio": 0.5}, {"offload.ratio": 0.5, "offload.optimizer": "cpu"}),
    c(
        "ZC308",
        "offload.ratio",
        {"offload.ratio": 0.5, "offload.optimizer": "cpu", "optimizer.type": "Lion"},
        {"offload.optimizer": "cpu", "optimizer.type": "Lion"},
    ),
    c(
        "ZC309",
        "parallelism.zero_quantized_gradients",
        {"parallelism.zero_quantized_gradients": True},
        {"parallelism.zero_quantized_gradients": True, "hardware.num_nodes": 2},
    ),
    c(
        "ZC309",
        "parallelism.zero_hpz_partition_size",
        {"parallelism.zero_hpz_partition_size": 16, "hardware.num_nodes": 2},
        {"parallelism.zero_hpz_partition_size": 0, "hardware.num_nodes": 2},
    ),
    c(
        "ZC310",
        "parallelism.zero_quantized_weights",
        {"parallelism.zero_quantized_weights": True, "hardware.accelerator": "cpu"},
        {"parallelism.zero_quantized_weights": True},
    ),
    c(
        "ZC311",
        "parallelism.round_robin_gradients",
        {"parallelism.round_robin_gradients": True},
        {"parallelism.round_robin_gradients": False},
    ),
    c("ZC311", "parallelism.allgather_bucket_size", {"parallelism.allgather_bucket_size": 1000}, {}),
    c("ZC311", "parallelism.overlap_comm", {"parallelism.overlap_comm": True, "parallelism.stage": 0}, {"parallelism.overlap_comm": True}),
    c(
        "ZC312",
        "activation_checkpointing.contiguous_memory_optimization",
        {"activation_checkpointing": {"enabled": True, "contiguous_memory_optimization": True}},
        {
            "activation_checkpointing": {"enabled": True, "contiguous_memory_optimization": True, "partition_activations": True},
            "parallelism.tensor_parallel_degree": 2,
        },
    ),
    c(
        "ZC313",
        "activation_checkpointing.partition_activations",
        {"activation_checkpointing": {"enabled": True, "partition_activations": True}},
        {"activation_checkpointing": {"enabled": True, "partition_activations": True}, "parallelism.tensor_parallel_degree": 2},
    ),
    c("ZC314", "offload.optimizer", {"offload.optimizer": "cpu", "hardware.accelerator": "cpu"}, {"hardware.accelerator": "cpu"}),
    c(
        "ZC315",
        "activation_checkpointing.cpu_checkpointing",
        {"activation_checkpointing.cpu_checkpointing": True},
        {"activation_checkpointing": {"enabled": True, "cpu_checkpointing": True}},
    ),
    c(
        "ZC315",
        "activation_checkpointing.number_checkpoints",
        {"activation_checkpointing": {"enabled": True, "number_checkpoints": 4}},
        {"activation_checkpointing": {"enabled": True}},
    ),
    c(
        "ZC316",
        "offload.param_buffer_size",
        {"offload": {"optimizer": "nvme", "param": "nvme", "nvme_path": "/nvme", "param_buffer_size": 131_071}},
        {"offload": {"optimizer": "nvme", "param": "nvme", "nvme_path": "/nvme", "param_buffer_size": 131_072}},
    ),
    c("ZC317", "offload.param_buffer_count", {"offload.param_buffer_count": 8}, {}),
    c("ZC317", "offload.pipeline_read", {"offload.pipeline_read": True, "offload.optimizer": "cpu"}, {"offload.optimizer": "cpu"}),
    c(
        "ZC317",
        "offload.optimizer_buffer_count",
        {"offload": {"optimizer": "nvme", "nvme_path": "/nvme", "optimizer_buffer_count": 0}},
        {"offload": {"optimizer": "nvme", "nvme_path": "/nvme", "optimizer_buffer_count": 1}},
    ),
    c(
        "ZC318",
        "parallelism.zero_hpz_partition_size",
        {"parallelism.zero_hpz_partition_size": 4, "parallelism.tensor_parallel_degree": 2},
        {"parallelism.zero_hpz_partition_size": 4},
    ),
    c(
        "ZC319",
        "parallelism.reduce_scatter",
        {"parallelism.zero_quantized_gradients": True, "parallelism.reduce_scatter": False, "hardware.num_nodes": 2},
        {"parallelism.zero_quantized_gradients": True, "parallelism.reduce_scatter": True, "hardware.num_nodes": 2},
    ),
    c(
        "ZC320",
        "offload.optimizer",
        {"optimizer.type": "Lamb", "offload.optimizer": "cpu", "parallelism.stage": 1},
        {"offload.optimizer": "cpu"},
    ),
    c("ZC320", "optimizer.type", {"optimizer.type": "Lamb", "parallelism.stage": 1}, {"optimizer.type": "Lamb", "parallelism.stage": 0}),
    c(
        "ZC320",
        "precision.loss_scale",
        {"optimizer.type": "Lamb", "parallelism.stage": 0, "precision.dtype": "fp16", "precision.loss_scale": 128},
        {"optimizer.type": "Lamb", "parallelism.stage": 0, "precision.dtype": "fp16", "precision.loss_scale": 0},
    ),
    c(
        "ZC320",
        "precision.master_dtype",
        {"optimizer.type": "Lamb", "parallelism.stage": 1, "precision.master_dtype": "bf16"},
        {"optimizer.type": "Lion", "parallelism.stage": 1, "precision.master_dtype": "bf16"},
    ),
    c("ZC321", "optimizer.type", {"optimizer.type": "Lion", "hardware.accelerator": "cpu"}, {"optimizer.type": "Lion"}),
    c(
        "ZC322",
        "parallelism.reduce_scatter",
        {"optimizer.type": "Muon", "parallelism.reduce_scatter": True},
        {"optimizer.type": "Muon", "parallelism.reduce_scatter": False},
    ),
    c(
        "ZC323",
        "scheduler.type",
        {"optimizer.type": "Muon", "optimizer.muon_lr": 0.02, "scheduler.type": "WarmupLR"},
        {"optimizer.type": "Muon", "optimizer.muon_lr": 0.02, "scheduler.type": "WarmupCosineLR"},
    ),
    c("ZC401", "precision.dtype", {"hardware.compute_capability": "7.5"}, {"hardware.compute_capability": "8.0"}),
    c(
        "ZC402",
        "precision.tf32",
        {"precision": {"dtype": "fp32", "tf32": True}, "hardware.compute_capability": "7.0"},
        {"precision": {"dtype": "fp32", "tf32": True}},
    ),
    c("ZC402", "precision.tf32", {"precision.tf32": True}, {"precision.tf32": False}),
    c("ZC403", "precision.dtype", {"precision.dtype": "fp16", "hardware.accelerator": "cpu"}, {"precision.dtype": "fp16"}),
    c("ZC404", "precision.master_dtype", {"precision": {"dtype": "fp32", "master_dtype": "bf16"}}, {"precision.master_dtype": "bf16"}),
    c("ZC404", "precision.master_dtype", {"precision.master_dtype": "bf16", "parallelism.stage": 0}, {"parallelism.stage": 0}),
    c(
        "ZC404",
        "precision.master_dtype",
        {"precision": {"dtype": "bf16", "master_dtype": "bf16", "grad_accum_dtype": "fp32"}, "parallelism.stage": 1},
        {"precision": {"dtype": "bf16", "master_dtype": "bf16", "grad_accum_dtype": "fp32"}, "parallelism.stage": 2},
    ),
    c(
        "ZC405",
        "precision.master_dtype",
        {"precision.master_dtype": "bf16", "offload.optimizer": "cpu", "optimizer.type": "Adagrad"},
        {"precision.master_dtype": "bf16", "offload.optimizer": "cpu", "optimizer.type": "Adam"},
    ),
    c(
        "ZC406",
        "precision.grad_accum_dtype",
        {"precision.grad_accum_dtype": "fp32", "parallelism.stage": 0},
        {"precision.grad_accum_dtype": "fp32", "parallelism.stage": 1},
    ),
    c(
        "ZC407",
        "precision.initial_scale_power",
        {"precision.initial_scale_power": 12},
        {"precision": {"dtype": "fp16", "initial_scale_power": 12}},
    ),
    c(
        "ZC408",
        "precision.hysteresis",
        {"precision": {"dtype": "fp16", "hysteresis": 0}},
        {"precision": {"dtype": "fp16", "hysteresis": 1}},
    ),
    c("ZC740", "container.image", {"container.kind": "docker"}, {"container.kind": "docker", "container.image": "zerocfg"}),
    c("ZC740", "container.image", {"container.image": "zerocfg"}, {}),
    c("ZC741", "container.mounts", {**DOCKER, "container.mounts": ["data"]}, {**DOCKER, "container.mounts": ["/data:/d:ro"]}),
    c(
        "ZC741",
        "container.mounts",
        {**DOCKER, "container.kind": "pyxis", "container.mounts": ["/a,b"]},
        {**DOCKER, "container.mounts": ["/a,b"]},
    ),
    c("ZC742", "container.shm_size", {**DOCKER, "container.shm_size": "big"}, {**DOCKER, "container.shm_size": "16G"}),
    c(
        "ZC742",
        "container.shm_size",
        {**DOCKER, "container.kind": "apptainer", "container.shm_size": "16g"},
        {**DOCKER, "container.kind": "apptainer"},
    ),
    c("ZC743", "container.environment", {**DOCKER, "container.environment": ["A=b"]}, {**DOCKER, "container.environment": ["A"]}),
    c("ZC743", "container.python", {**DOCKER, "container.python": ""}, {**DOCKER, "container.python": "/opt/bin/python"}),
    c(
        "ZC814",
        "container.arguments",
        {**DOCKER, "container.arguments": ["--env=HF_TOKEN=abc"]},
        {**DOCKER, "container.arguments": ["--env=HF_TOKEN"]},
    ),
    c("ZC743", "container.arguments", {**DOCKER, "container.arguments": ["a\nb"]}, {**DOCKER, "container.arguments": ["--a=b c"]}),
    c("ZC810", "env.OMP_NUM_THREADS", {}, {"env.OMP_NUM_THREADS": 4}, OMP_NUM_THREADS="2"),
    c("ZC811", "env.MASTER_PORT", {"env.MASTER_PORT": 1}, {"torchrun.rdzv_port": 1234}),
    c("ZC811", "env.PET_STANDALONE", {"env.PET_STANDALONE": 1}, {}),
    c("ZC811", "env.CUDA_VISIBLE_DEVICES", {"env.CUDA_VISIBLE_DEVICES": "0"}, {}),
    c("ZC812", "env.A-B", {"env.A-B": "x"}, {"env.A_B": "x"}),
    c("ZC812", "env.TOKENIZERS_PARALLELISM", {"env.TOKENIZERS_PARALLELISM": False}, {"env.TOKENIZERS_PARALLELISM": "false"}),
    c("ZC812", "env.X", {"env.X": None}, {"env.X": 1.5}),
    c("ZC813", "env.TORCH_CUDA_ARCH_LIST", {"env.TORCH_CUDA_ARCH_LIST": "8.0;9.0a"}, {"env.TORCH_CUDA_ARCH_LIST": "8.0;9.0+PTX"}),
]


@pytest.mark.parametrize("case", CASES, ids=[f"{i}-{case.code}-{case.path}" for i, case in enumerate(CASES)])
def test_a_code_fails_once_and_its_correction_is_clean(case: Case, container: Callable[..., dict[str, Any]]) -> None:
    bad = examine(container(case.bad), environ=case.environ).diagnostics
    found = [d for d in bad if d.code == case.code and d.path == case.path]
    assert len(found) == 1, [(d.code, d.path, d.message) for d in bad]
    assert _is_complete(found[0])
    good = examine(container(case.good), environ=case.environ)
    assert [(d.code, d.path, d.message) for d in good.diagnostics] == []
    assert good.run is not None


def _is_complete(diagnostic: Diagnostic) -> bool:
    """It names the path, says who decided the value and what to write instead, and is one greppable first line."""
    last = diagnostic.path.removeprefix("env.")
    named = last in diagnostic.message or diagnostic.path in diagnostic.message
    return named and diagnostic.decided_by != "" and diagnostic.hint != "" and "\n" not in diagnostic.message


def test_every_code_of_the_passes_has_a_case() -> None:
    assert sorted({case.code for case in CASES}) == sorted(PLAN_CODES)


def _tables() -> Iterator[tuple[str, str, str]]:
    """(module, code, line) of every table named *CODES; a table that a module only imports counts once."""
    seen: set[int] = set()
    for module in pkgutil.walk_packages(zerocfg.__path__, "zerocfg."):
        if module.name.endswith("__main__"):
            continue
        for name, table in vars(importlib.import_module(module.name)).items():
            if name.endswith("CODES") and isinstance(table, dict) and id(table) not in seen:
                seen.add(id(table))
                yield from ((module.name, code, line) for code, line in table.items())


def _raised() -> dict[str, list[str]]:
    """Code -> where the source mentions it as a value of its own, tables of codes apart."""
    found: dict[str, list[str]] = {}
    for path in sorted(SRC.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        in_tables = {id(key) for node in ast.walk(tree) if _is_table(node) for key in ast.walk(node)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and CODE.fullmatch(node.value) and id(node) not in in_tables:
                found.setdefault(node.value, []).append(f"{path.relative_to(SRC)}:{node.lineno}")
    return found


def _is_table(node: ast.AST) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return any(isinstance(target, ast.Name) and target.id.endswith("CODES") for target in targets)


def test_every_code_that_is_raised_has_exactly_one_line_and_the_reverse() -> None:
    lines = list(_tables())
    twice = [code for code, count in Counter(code for _, code, _ in lines).items() if count > 1]
    raised = _raised()
    tables = {code for _, code, _ in lines}
    assert twice == []
    assert {code: where for code, where in raised.items() if code not in tables} == {}
    assert sorted(tables - raised.keys()) == []


def test_a_line_is_one_sentence() -> None:
    crooked = [(code, line) for _, code, line in _tables() if not line.strip() or "\n" in line or not CODE.fullmatch(code)]
    assert crooked == []
