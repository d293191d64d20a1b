from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from zerocfg.passes.check.activation_checkpointing import CHECKS

CASES: list[tuple[dict[str, Any], str]] = [
    ({}, ""),
    ({"activation_checkpointing": {"enabled": True, "cpu_checkpointing": True, "profile": True}}, ""),
    (
        {
            "activation_checkpointing": {"enabled": True, "partition_activations": True, "contiguous_memory_optimization": True},
            "parallelism.tensor_parallel_degree": 2,
        },
        "",
    ),
    (
        {"activation_checkpointing": {"enabled": True, "contiguous_memory_optimization": True}, "model": {}},
        """\
error[ZC312] activation_checkpointing.contiguous_memory_optimization=true needs activation_checkpointing.partition_activations=true
  try: activation_checkpointing.partition_activations=true
error[ZC312] activation_checkpointing.contiguous_memory_optimization=true needs activation_checkpointing.number_checkpoints=N
  try: activation_checkpointing.number_checkpoints=N""",
    ),
    (
        {"activation_checkpointing": {"enabled": True, "partition_activations": True, "number_checkpoints": 3}},
        """\
warning[ZC313] activation_checkpointing.partition_activations=true has no effect: it splits over tensor-parallel ranks
  parallelism.tensor_parallel_degree=1
  try: activation_checkpointing.partition_activations=false
error[ZC315] activation_checkpointing.number_checkpoints=3 has no effect without contiguous_memory_optimization=true
  try: activation_checkpointing.number_checkpoints=null""",
    ),
    (
        {"activation_checkpointing": {"partition_activations": True, "synchronize_checkpoint_boundary": True}},
        """\
error[ZC315] activation_checkpointing.partition_activations=true has no effect: activation checkpointing is off
  try: activation_checkpointing.enabled=true, or activation_checkpointing.partition_activations=false
error[ZC315] activation_checkpointing.synchronize_checkpoint_boundary=true has no effect: activation checkpointing is off
  try: activation_checkpointing.enabled=true, or activation_checkpointing.synchronize_checkpoint_boundary=false""",
    ),
]


@pytest.mark.parametrize(("changes", "report"), CASES)
def test_report(changes: dict[str, Any], report: str, checked: Callable[..., str]) -> None:
    assert checked(changes, CHECKS) == report
