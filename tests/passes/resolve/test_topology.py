from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.models import GPT2
from zerocfg.facts import HardwareFacts
from zerocfg.passes.resolve.topology import resolve_topology
from zerocfg.plan import TopologyPlan
from zerocfg.schema.parallelism import ParallelismConfig

NODE = HardwareFacts(
    name="",
    accelerator="cuda",
    gpu="A100-SXM4-80GB",
    num_nodes=1,
    gpus_per_node=8,
    memory_bytes=80 * 2**30,
    compute_capability=(8, 0),
    fp32_tflops=0.0,
    tf32_tflops=0.0,
    fp16_tflops=0.0,
    bf16_tflops=0.0,
    memory_bandwidth_gbps=0.0,
    link="nvswitch",
    link_gbps=0.0,
    p2p=True,
    pcie_gbps=0.0,
    network="none",
    network_gbps=0.0,
    network_interface="",
    cpus_per_node=100,
    host_memory_bytes=0,
    numa_nodes=1,
    memory_target=0.8,
)
MODEL = replace(GPT2, num_hidden_layers=2, vocab_size=1000)


@pytest.mark.parametrize(
    ("degrees", "hardware", "expected", "data_parallel"),
    [
        ({}, {}, {"nproc_per_node": 8, "backend": "nccl", "cpus_per_rank": 12}, 8),
        ({"tensor_parallel_degree": 4}, {}, {"nproc_per_node": 8, "backend": "nccl", "cpus_per_rank": 12}, 2),
        ({"sequence_parallel_degree": 4}, {"num_nodes": 4}, {"nproc_per_node": 8, "backend": "nccl", "cpus_per_rank": 12}, 8),
        ({}, {"accelerator": "cpu", "gpus_per_node": 2}, {"nproc_per_node": 2, "backend": "gloo", "cpus_per_rank": 50}, 2),
        ({}, {"cpus_per_node": 4}, {"nproc_per_node": 8, "backend": "nccl", "cpus_per_rank": 1}, 8),
        (
            {"tensor_parallel_degree": 6},
            {"num_nodes": 3, "gpus_per_node": 2},
            {"nproc_per_node": 2, "backend": "nccl", "cpus_per_rank": 50},
            1,
        ),
    ],
)
def test_topology(degrees: dict[str, int], hardware: dict[str, Any], expected: dict[str, Any], data_parallel: int) -> None:
    facts = replace(NODE, **hardware)
    resolved = resolve_topology(ParallelismConfig(**degrees), facts, MODEL)
    both = {"tensor_parallel_degree": 1, "sequence_parallel_degree": 1} | degrees
    assert list(resolved.problems) == []
    assert resolved.value == TopologyPlan(num_nodes=facts.num_nodes, **both, **expected)
    assert resolved.value.data_parallel_size == data_parallel
    assert set(resolved.reasons) == {"num_nodes", "nproc_per_node", "backend", "cpus_per_rank", *both}


@pytest.mark.parametrize(
    ("degrees", "hardware", "model", "report"),
    [
        (
            {"tensor_parallel_degree": 3},
            {"num_nodes": 2},
            {},
            """\
error[ZC210] parallelism.tensor_parallel_degree=3 does not divide the world of 16 ranks
  world = num_nodes x gpus_per_node = 16; its divisors: 1, 2, 4, 8, 16
  try: parallelism.tensor_parallel_degree=2""",
        ),
        (
            {"sequence_parallel_degree": 32},
            {},
            {},
            """\
error[ZC210] parallelism.sequence_parallel_degree=32 does not divide the world of 8 ranks
  world = num_nodes x gpus_per_node = 8; its divisors: 1, 2, 4, 8
  try: parallelism.sequence_parallel_degree=4""",
        ),
        (
            {"tensor_parallel_degree": 8},
            {},
            {},
            """\
error[ZC211] parallelism.tensor_parallel_degree=8 does not divide model.num_attention_heads=12
  12 / 8 = 1.5 heads a rank
  try: parallelism.tensor_parallel_degree=4""",
        ),
        (
            {"sequence_parallel_degree": 4},
            {},
            {"sequence_length": 1022},
            """\
error[ZC212] model.sequence_length=1022 is not a multiple of parallelism.sequence_parallel_degree=4
  1022 / 4 = 255.5 tokens a rank
  try: model.sequence_length=1020""",
        ),
        (
            {"tensor_parallel_degree": 2, "sequence_parallel_degree": 4},
            {},
            {},
            """\
error[ZC216] parallelism.tensor_parallel_degree=2 and parallelism.sequence_parallel_degree=4 cannot be used together
  DeepSpeed lays each of the two over the whole world, so the same ranks would be in both groups (__init__.py:543)
  try: parallelism.tensor_parallel_degree=1 or parallelism.sequence_parallel_degree=1""",
        ),
    ],
)
def test_degrees_that_do_not_fit(degrees: dict[str, int], hardware: dict[str, Any], model: dict[str, Any], report: str) -> None:
    resolved = resolve_topology(ParallelismConfig(**degrees), replace(NODE, **hardware), replace(MODEL, **model))
    assert "\n".join(problem.render() for problem in resolved.problems) == report
    plan = resolved.value
    assert plan.data_parallel_size * plan.tensor_parallel_degree * plan.sequence_parallel_degree == plan.world_size


def test_a_model_that_is_not_described_limits_nothing() -> None:
    resolved = resolve_topology(ParallelismConfig(tensor_parallel_degree=8), NODE, None)
    assert (resolved.value.tensor_parallel_degree, list(resolved.problems)) == (8, [])


def test_a_huge_world_is_factored_in_no_time() -> None:
    resolved = resolve_topology(ParallelismConfig(tensor_parallel_degree=7), replace(NODE, num_nodes=2**15, gpus_per_node=2**8), None)
    (problem,) = resolved.problems
    assert problem.hint == "parallelism.tensor_parallel_degree=8"
