"""ZeRO, offload, activation checkpointing, and what an optimizer goes with: ZC3xx."""

from __future__ import annotations

from tests.codes.case import c

CASES = [
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
]
