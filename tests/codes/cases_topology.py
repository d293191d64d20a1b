"""Batch, ranks, torchrun, checkpoints: ZC2xx."""

from __future__ import annotations

from tests.codes.case import c

KV_GROUPS = {"model.num_attention_heads": 48, "model.num_key_value_heads": 4, "model.hidden_size": 576, "model.sequence_length": 144}
CASES = [
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
]
