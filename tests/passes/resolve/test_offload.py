from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.models import LLAMA3_8B
from zerocfg.facts import ModelFacts
from zerocfg.passes.resolve.offload import resolve_activation_checkpointing, resolve_offload
from zerocfg.plan import ActivationCheckpointingPlan, OffloadPlan, TopologyPlan
from zerocfg.schema.activation_checkpointing import ActivationCheckpointingConfig
from zerocfg.schema.offload import OffloadConfig
from zerocfg.schema.types import OffloadDevice

EIGHT = TopologyPlan(num_nodes=1, nproc_per_node=8, tensor_parallel_degree=1, sequence_parallel_degree=1, backend="nccl", cpus_per_rank=1)
LLAMA3_70B = replace(LLAMA3_8B, num_hidden_layers=80, hidden_size=8192, num_attention_heads=64, intermediate_size=28672)
SMALL = replace(
    LLAMA3_70B, num_hidden_layers=1, hidden_size=64, num_attention_heads=1, num_key_value_heads=1, intermediate_size=128, vocab_size=1001
)
NONE: dict[str, Any] = {
    "optimizer": "none",
    "param": "none",
    "nvme_path": "",
    "pin_memory": True,
    "ratio": 1.0,
    "param_buffer_count": 5,
    "param_buffer_size": 100_000_000,
    "param_max_in_cpu": 10**9,
    "optimizer_buffer_count": 4,
    "pipeline_read": False,
    "pipeline_write": False,
}


@pytest.mark.parametrize(
    ("config", "model", "topology", "expected", "why"),
    [
        (OffloadConfig(), None, EIGHT, {}, "DeepSpeed's default"),
        # vocabulary x hidden = 128256 x 8192 over 8 ranks, and over 4 where 2 ranks share each weight
        (
            OffloadConfig(param=OffloadDevice.nvme, nvme_path="/nvme"),
            LLAMA3_70B,
            EIGHT,
            {"param": "nvme", "nvme_path": "/nvme", "param_buffer_size": 131_334_144},
            "the largest parameter's shard must fit one buffer: 1050673152 / 8",
        ),
        (
            OffloadConfig(),
            LLAMA3_70B,
            replace(EIGHT, tensor_parallel_degree=2),
            {"param_buffer_size": 262_668_288},
            "the largest parameter's shard must fit one buffer: 1050673152 / 4",
        ),
        # sequence-parallel ranks hold shards of their own
        (
            OffloadConfig(),
            LLAMA3_70B,
            replace(EIGHT, sequence_parallel_degree=8),
            {"param_buffer_size": 131_334_144},
            "the largest parameter's shard must fit one buffer: 1050673152 / 8",
        ),
        (
            OffloadConfig(),
            SMALL,
            EIGHT,
            {"param_buffer_size": SMALL.num_parameters, "param_max_in_cpu": SMALL.num_parameters},
            f"DeepSpeed's default, capped at the model's {SMALL.num_parameters} parameters",
        ),
        # the disk works while the CPU does, unless told otherwise
        (
            OffloadConfig(optimizer=OffloadDevice.nvme, nvme_path="/n", pipeline_write=False),
            None,
            EIGHT,
            {"optimizer": "nvme", "nvme_path": "/n", "pipeline_read": True},
            "DeepSpeed's default",
        ),
        (
            OffloadConfig(
                optimizer=OffloadDevice.nvme,
                param=OffloadDevice.cpu,
                nvme_path="/a b",
                pin_memory=False,
                ratio=0.25,
                param_buffer_count=1,
                param_buffer_size=2.0,
                param_max_in_cpu=3,
                optimizer_buffer_count=9,
                pipeline_read=True,
                pipeline_write=True,
            ),
            LLAMA3_70B,
            EIGHT,
            {
                "optimizer": "nvme",
                "param": "cpu",
                "nvme_path": "/a b",
                "pin_memory": False,
                "ratio": 0.25,
                "param_buffer_count": 1,
                "param_buffer_size": 2,
                "param_max_in_cpu": 3,
                "optimizer_buffer_count": 9,
                "pipeline_read": True,
                "pipeline_write": True,
            },
            "",
        ),
    ],
)
def test_offload(config: OffloadConfig, model: ModelFacts | None, topology: TopologyPlan, expected: dict[str, Any], why: str) -> None:
    resolved = resolve_offload(config, model, topology)
    assert resolved.value == OffloadPlan(**{**NONE, **expected})
    assert resolved.reasons["param_buffer_size"].text == why
    assert set(resolved.reasons) == {*NONE, "name"}


@pytest.mark.parametrize(
    ("config", "model", "number"),
    [
        (ActivationCheckpointingConfig(enabled=True), LLAMA3_70B, 0),
        (ActivationCheckpointingConfig(enabled=True, contiguous_memory_optimization=True), LLAMA3_70B, 80),
        (ActivationCheckpointingConfig(enabled=True, contiguous_memory_optimization=True), None, 0),
        (ActivationCheckpointingConfig(enabled=True, contiguous_memory_optimization=True, number_checkpoints=7), LLAMA3_70B, 7),
    ],
)
def test_number_of_checkpoints(config: ActivationCheckpointingConfig, model: ModelFacts | None, number: int) -> None:
    resolved = resolve_activation_checkpointing(config, model)
    assert resolved.value == ActivationCheckpointingPlan(
        enabled=True,
        partition_activations=False,
        cpu_checkpointing=False,
        contiguous_memory_optimization=config.contiguous_memory_optimization,
        number_checkpoints=number,
        synchronize_checkpoint_boundary=False,
        profile=False,
    )
