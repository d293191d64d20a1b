from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from zerocfg.passes.check.topology import CHECKS

GROUPED = {"model.num_attention_heads": 12, "model.hidden_size": 768, "model.num_key_value_heads": 4}
CASES: list[tuple[dict[str, Any], str]] = [
    ({}, ""),
    ({"hardware.num_nodes": 2}, ""),
    ({**GROUPED, "parallelism.sequence_parallel_degree": 2}, ""),
    # one is a multiple of the other
    ({**GROUPED, "model.num_attention_heads": 16, "parallelism.sequence_parallel_degree": 8}, ""),
    (
        {**GROUPED, "hardware.gpus_per_node": 6, "parallelism.sequence_parallel_degree": 6, "model.sequence_length": 120},
        """\
error[ZC213] parallelism.sequence_parallel_degree=6 and model.num_key_value_heads=4: neither is a multiple of the other
  4 / 6 = 0.6667
  try: parallelism.sequence_parallel_degree=2""",
    ),
    (
        {"model.num_key_value_heads": 2, "parallelism.tensor_parallel_degree": 8},
        """\
warning[ZC214] parallelism.tensor_parallel_degree=8 is more than model.num_key_value_heads=2
  ranks beyond the head count hold no part of the attention: it does not get faster past that point (engine.py:1046)
  try: parallelism.tensor_parallel_degree=2""",
    ),
    ({"model": {}, "parallelism.tensor_parallel_degree": 8}, ""),
    (
        {"hardware.num_nodes": 4, "hardware.network": None},
        """\
warning[ZC215] hardware.num_nodes=4, but hardware.network=none: nothing can be said about the link between nodes
  try: hardware.network=infiniband, roce, efa or tcp, and hardware.network_gbps=GB/s""",
    ),
]


@pytest.mark.parametrize(("changes", "report"), CASES)
def test_report(changes: dict[str, Any], report: str, checked: Callable[..., str]) -> None:
    assert checked(changes, CHECKS) == report
