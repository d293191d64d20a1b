from __future__ import annotations

import pytest

from zerocfg.passes.resolve.precision import resolve_precision
from zerocfg.plan import PrecisionPlan
from zerocfg.provenance import Reason, asked, rule
from zerocfg.schema.precision import PrecisionConfig
from zerocfg.schema.types import DType

FOLLOWS_BF16 = rule("resolve.precision", "the model's dtype, bf16", "precision.dtype")
SUM = rule("resolve.precision", "sequence-parallel ranks sum parts of one gradient", "parallelism.sequence_parallel_degree")


@pytest.mark.parametrize(
    ("config", "sequence_parallel", "accumulate", "communicate"),
    [
        (PrecisionConfig(dtype=DType.bf16), 1, ("bf16", FOLLOWS_BF16), ("bf16", FOLLOWS_BF16)),
        (PrecisionConfig(dtype=DType.bf16), 2, ("bf16", FOLLOWS_BF16), ("fp32", SUM)),
        (
            PrecisionConfig(dtype=DType.bf16, grad_accum_dtype=DType.fp32),
            1,
            ("fp32", asked("precision.grad_accum_dtype")),
            ("bf16", FOLLOWS_BF16),
        ),
        (
            PrecisionConfig(dtype=DType.bf16, communication_data_type=DType.bf16),
            4,
            ("bf16", FOLLOWS_BF16),
            ("bf16", asked("precision.communication_data_type")),
        ),
    ],
)
def test_what_is_left_null_follows(
    config: PrecisionConfig, sequence_parallel: int, accumulate: tuple[str, Reason], communicate: tuple[str, Reason]
) -> None:
    resolved = resolve_precision(config, sequence_parallel)
    assert resolved.value == PrecisionPlan(
        dtype="bf16",
        tf32=False,
        master_dtype="fp32",
        grad_accum_dtype=accumulate[0],
        communication_data_type=communicate[0],
        loss_scale=0.0,
        initial_scale_power=16,
        loss_scale_window=1000,
        hysteresis=2,
        min_loss_scale=1,
    )
    assert resolved.reasons["grad_accum_dtype"] == accumulate[1]
    assert resolved.reasons["communication_data_type"] == communicate[1]
    assert all(
        reason == asked(f"precision.{name}")
        for name, reason in resolved.reasons.items()
        if name not in ("grad_accum_dtype", "communication_data_type")
    )
    assert list(resolved.problems) == []
