from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from zerocfg.lowered import nest
from zerocfg.passes.lower.deepspeed import lower_deepspeed
from zerocfg.plan import Plan
from zerocfg.provenance import Reason

Resolve = Callable[[dict[str, Any]], tuple[Plan, Mapping[str, Reason]]]
ZERO3: dict[str, Any] = {
    "stage": 3,
    "overlap_comm": True,
    "contiguous_gradients": True,
    "reduce_scatter": True,
    "reduce_bucket_size": 3152384,
    "stage3_prefetch_bucket_size": 3152384,
    "stage3_param_persistence_threshold": 5120,
    "stage3_max_live_parameters": 13188096,
    "stage3_max_reuse_distance": 3 * 13188096,
    "sub_group_size": 13188096,
    "stage3_gather_16bit_weights_on_model_save": False,
    "memory_efficient_linear": False,
}
RELEASED = {name: value for name, value in ZERO3.items() if name != "memory_efficient_linear"} | {"stage3_max_reuse_distance": 13188096}
"""Where weights do not stay gathered."""
BY_MODULE = {**RELEASED, "reduce_bucket_size": 262144, "stage3_prefetch_bucket_size": 235929}
"""Where no leaf module is looked for."""
ZERO1: dict[str, Any] = {
    "stage": 1,
    "overlap_comm": True,
    "contiguous_gradients": True,
    "reduce_scatter": True,
    "reduce_bucket_size": 13188096,
    "allgather_bucket_size": 13188096,
}
BATCH = {"train_batch_size": 8, "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1, "gradient_clipping": 1.0}
ADAMW = {"type": "AdamW", "params": {"lr": 1e-4}}
BASE: dict[str, Any] = {**BATCH, "bf16": {"enabled": True}, "zero_optimization": ZERO3, "optimizer": ADAMW}
GONE = object()

CASES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"parallelism.stage": 0}, {"zero_optimization": {"stage": 0}}),
    ({"parallelism.stage": 1}, {"zero_optimization": ZERO1, "bf16": {"enabled": True, "check_grad_overflow": True}}),
    (
        {"parallelism": {"stage": 2, "round_robin_gradients": True}, "precision.dtype": "fp32"},
        {"zero_optimization": {**ZERO1, "stage": 2, "round_robin_gradients": True}, "bf16": GONE},
    ),
    (
        {"parallelism": {"stage": 3, "zero_hpz_partition_size": 0, "zero_quantized_weights": True, "zero_quantized_gradients": True}},
        {"zero_optimization": {**ZERO3, "zero_quantized_weights": True, "zero_quantized_gradients": True, "zero_hpz_partition_size": 8}},
    ),
    (
        {"parallelism": {"stage": 3, "leaf_module_classes": ["A", "B"]}},
        {"zero_optimization": {**RELEASED, "leaf_module": {"classes": ["A", "B"]}}},
    ),
    ({"train.profile": "comms"}, {"comms_logger": {"enabled": True}}),
    ({"train.profile": "torch"}, {}),
    # AutoTP: DeepSpeed would check the product against two different worlds
    (
        {"parallelism": {"stage": 3, "tensor_parallel_degree": 2}},
        {"train_batch_size": GONE, "tensor_parallel": {"autotp_size": 2}, "zero_optimization": BY_MODULE},
    ),
    # Ulysses: the mesh needs both sizes, and gradients are summed in another dtype
    (
        {"parallelism": {"stage": 3, "sequence_parallel_degree": 4}, "batch.global_batch_size": 6},
        {
            "train_batch_size": 6,
            "gradient_accumulation_steps": 3,
            "sequence_parallel_size": 4,
            "data_parallel_size": 2,
            "seq_parallel_communication_data_type": "fp32",
        },
    ),
    (
        {"parallelism": {"stage": 3, "sequence_parallel_degree": 4}, "precision": {"dtype": "bf16", "communication_data_type": "bf16"}},
        {"train_batch_size": 2, "sequence_parallel_size": 4, "data_parallel_size": 2, "seq_parallel_communication_data_type": "bf16"},
    ),
    (
        {"precision": {"dtype": "fp16", "loss_scale": 0, "initial_scale_power": 12}},
        {
            "bf16": GONE,
            "fp16": {
                "enabled": True,
                "loss_scale": 0.0,
                "initial_scale_power": 12,
                "loss_scale_window": 1000,
                "hysteresis": 2,
                "min_loss_scale": 1,
            },
        },
    ),
    (
        {"precision": {"dtype": "bf16", "master_dtype": "bf16"}},
        {"bf16": {"enabled": True, "bf16_master_weights_and_grads": True, "bf16_optimizer_states": True}},
    ),
    (
        {"precision": {"dtype": "bf16", "grad_accum_dtype": "fp32", "communication_data_type": "fp32"}},
        {"data_types": {"grad_accum_dtype": "fp32"}, "communication_data_type": "fp32"},
    ),
    (
        {"offload": {"optimizer": "cpu", "param": "cpu", "pin_memory": False, "ratio": 0.5}},
        {
            "zero_optimization": {
                **RELEASED,
                "offload_optimizer": {"device": "cpu", "pin_memory": False, "ratio": 0.5},
                "offload_param": {"device": "cpu", "pin_memory": False},
            }
        },
    ),
    (
        {"offload": {"optimizer": "nvme", "param": "nvme", "nvme_path": "/nvme", "pipeline_read": False}},
        {
            "zero_optimization": {
                **BY_MODULE,
                "offload_optimizer": {
                    "device": "nvme",
                    "pin_memory": True,
                    "nvme_path": "/nvme",
                    "buffer_count": 4,
                    "pipeline_read": False,
                    "pipeline_write": True,
                },
                "offload_param": {
                    "device": "nvme",
                    "pin_memory": True,
                    "nvme_path": "/nvme",
                    "buffer_count": 5,
                    "buffer_size": 13188096,
                    "max_in_cpu": 13188096,
                },
            }
        },
    ),
    (
        {"optimizer": {"type": "Lamb", "lr": 0.1, "gradient_clipping": 0.0}, "parallelism.stage": 1, "precision.dtype": "fp32"},
        {
            "gradient_clipping": 0.0,
            "zero_optimization": ZERO1,
            "optimizer": {"type": "Lamb", "params": {"lr": 0.1}},
            "zero_allow_untested_optimizer": True,
            "bf16": GONE,
        },
    ),
    (
        {"optimizer": {"type": "Lamb", "lr": 0.1}, "parallelism.stage": 0},
        {"zero_optimization": {"stage": 0}, "optimizer": {"type": "Lamb", "params": {"lr": 0.1}}},
    ),
    ({"optimizer.type": None}, {"optimizer": GONE}),
    (
        {"scheduler": {"type": "WarmupLR", "warmup_num_steps": 100}},
        {
            "scheduler": {
                "type": "WarmupLR",
                "params": {"warmup_min_lr": 0.0, "warmup_max_lr": 1e-4, "warmup_type": "linear", "warmup_num_steps": 100},
            }
        },
    ),
    (
        {
            "activation_checkpointing": {"enabled": True, "partition_activations": True, "contiguous_memory_optimization": True},
            "parallelism.tensor_parallel_degree": 2,
        },
        {
            "train_batch_size": GONE,
            "tensor_parallel": {"autotp_size": 2},
            "zero_optimization": BY_MODULE,
            "activation_checkpointing": {
                "partition_activations": True,
                "cpu_checkpointing": False,
                "contiguous_memory_optimization": True,
                "synchronize_checkpoint_boundary": False,
                "profile": False,
                "number_checkpoints": 4,
            },
        },
    ),
]


@pytest.mark.parametrize(("changes", "expected"), CASES)
def test_whole_json(changes: dict[str, Any], expected: dict[str, Any], resolved: Resolve) -> None:
    plan, reasons = resolved(changes)
    leaves = lower_deepspeed(plan, reasons)
    assert nest(leaves) == {key: value for key, value in {**BASE, **expected}.items() if value is not GONE}
    assert [leaf.path for leaf in leaves if not (leaf.reason.config_path or leaf.reason.text)] == []


def test_the_order_is_that_of_a_reader(resolved: Resolve) -> None:
    plan, reasons = resolved({"scheduler.type": "OneCycle", "activation_checkpointing.enabled": True})
    assert list(nest(lower_deepspeed(plan, reasons))) == [
        "train_batch_size",
        "train_micro_batch_size_per_gpu",
        "gradient_accumulation_steps",
        "gradient_clipping",
        "bf16",
        "zero_optimization",
        "optimizer",
        "scheduler",
        "activation_checkpointing",
    ]
