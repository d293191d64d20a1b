from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from zerocfg.passes.check.zero import CHECKS

CASES: list[tuple[dict[str, Any], str]] = [
    ({}, ""),
    ({"parallelism.stage": 0}, ""),
    (
        {
            "parallelism": {
                "stage": 2,
                "stage3_max_live_parameters": 5,
                "stage3_gather_16bit_weights_on_model_save": True,
                "zero_hpz_partition_size": 2,
                "leaf_module_classes": ["MoE"],
            }
        },
        """\
error[ZC306] parallelism.stage3_max_live_parameters=5 has no effect at stage 2: only stage 3 reads it
  try: parallelism=zero3, or parallelism.stage3_max_live_parameters=null
error[ZC306] parallelism.stage3_gather_16bit_weights_on_model_save=True has no effect at stage 2: only stage 3 reads it
  try: parallelism=zero3, or parallelism.stage3_gather_16bit_weights_on_model_save=false
error[ZC306] parallelism.zero_hpz_partition_size=2 has no effect at stage 2: only stage 3 reads it
  try: parallelism=zero3, or parallelism.zero_hpz_partition_size=null
error[ZC306] parallelism.leaf_module_classes=('MoE',) has no effect at stage 2: only stage 3 reads it
  try: parallelism=zero3, or parallelism.leaf_module_classes=null""",
    ),
    (
        {"parallelism": {"stage": 0, "reduce_bucket_size": 5, "allgather_bucket_size": 4, "round_robin_gradients": True}},
        """\
error[ZC311] parallelism.round_robin_gradients=true has no effect at stage 0: only stages 1 and 2 read it
  try: parallelism.round_robin_gradients=false
error[ZC311] parallelism.reduce_bucket_size=5 has no effect at stage 0
  try: parallelism.reduce_bucket_size=null, or a stage that reads it: 1, 2, 3
error[ZC311] parallelism.allgather_bucket_size=4 has no effect at stage 0
  try: parallelism.allgather_bucket_size=null, or a stage that reads it: 1, 2""",
    ),
    # switched off at stage 0 is what happens anyway
    ({"parallelism": {"stage": 0, "overlap_comm": False, "reduce_scatter": False}}, ""),
    ({"parallelism": {"stage": 1, "allgather_bucket_size": 4, "round_robin_gradients": True}}, ""),
    (
        {"parallelism.zero_hpz_partition_size": 3},
        """\
error[ZC307] parallelism.zero_hpz_partition_size=3 does not divide the world of 8 ranks
  8 / 3 = 2.667
  try: parallelism.zero_hpz_partition_size=8""",
    ),
    (
        {"parallelism.zero_hpz_partition_size": -2},
        """\
error[ZC307] parallelism.zero_hpz_partition_size=-2 does not divide the world of 8 ranks
  8 / -2 = -4
  try: parallelism.zero_hpz_partition_size=8""",
    ),
    ({"parallelism": {"stage": 3, "zero_hpz_partition_size": 0, "zero_quantized_gradients": True}, "hardware.num_nodes": 2}, ""),
    (
        {"parallelism": {"stage": 3, "zero_hpz_partition_size": 0, "zero_quantized_weights": True, "zero_quantized_gradients": True}},
        """\
warning[ZC309] parallelism.zero_quantized_gradients=true has no effect on one node: it quantizes traffic between nodes
  try: parallelism.zero_quantized_gradients=false, or hardware.num_nodes=2 or more
warning[ZC309] parallelism.zero_hpz_partition_size=8 covers the whole world of 8
  a second shard of all parameters would be kept for nothing
  try: parallelism.zero_hpz_partition_size=null, or hardware.num_nodes=2 or more""",
    ),
    # larger than the world is cut to it (utils/groups.py:944)
    (
        {"parallelism.zero_hpz_partition_size": 32, "hardware.num_nodes": 2},
        """\
warning[ZC309] parallelism.zero_hpz_partition_size=32 covers the whole world of 16
  a second shard of all parameters would be kept for nothing
  try: parallelism.zero_hpz_partition_size=null, or hardware.num_nodes=8 or more""",
    ),
    (
        {
            "parallelism": {"stage": 3, "zero_hpz_partition_size": 4, "zero_quantized_gradients": True, "tensor_parallel_degree": 2},
            "hardware.num_nodes": 2,
        },
        """\
error[ZC318] parallelism.zero_hpz_partition_size=4 groups ranks without regard to parallelism.tensor_parallel_degree=2
  try: parallelism.tensor_parallel_degree=1, or parallelism.zero_hpz_partition_size=null
error[ZC318] parallelism.zero_quantized_gradients=True groups ranks without regard to parallelism.tensor_parallel_degree=2
  try: parallelism.tensor_parallel_degree=1, or parallelism.zero_quantized_gradients=false""",
    ),
    ({"parallelism": {"stage": 3, "zero_quantized_weights": True, "tensor_parallel_degree": 2}}, ""),
    (
        {"parallelism": {"stage": 3, "zero_quantized_gradients": True, "reduce_scatter": False}, "hardware.num_nodes": 2},
        """\
error[ZC319] parallelism.reduce_scatter=false cannot be used with parallelism.zero_quantized_gradients=true
  try: parallelism.reduce_scatter=true""",
    ),
    (
        {"parallelism": {"stage": 3, "zero_quantized_weights": True}, "hardware.accelerator": "cpu"},
        """\
error[ZC310] parallelism.zero_quantized_weights=true needs cuda: its quantizer is a CUDA kernel
  try: parallelism.zero_quantized_weights=false""",
    ),
]


@pytest.mark.parametrize(("changes", "report"), CASES)
def test_report(changes: dict[str, Any], report: str, checked: Callable[..., str]) -> None:
    assert checked(changes, CHECKS) == report
