"""Clipping, averaging, accumulating; defaults that moved."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from zerocfg.deepspeed.check import check_deepspeed
from zerocfg.diagnostics import Severity

WARNING, NOTE = Severity.WARNING, Severity.NOTE
CPU = {"device": "cpu", "pin_memory": True}


def zero(stage: int, **settings: Any) -> dict[str, Any]:
    return {"zero_optimization": {"stage": stage, **settings}}


def bf16(**settings: Any) -> dict[str, Any]:
    return {"bf16": {"enabled": True, "check_grad_overflow": True, **settings}}


CASES: list[dict[str, Any]] = [
    {
        "code": "ZC671",
        "path": "gradient_clipping",
        "severity": WARNING,
        "bad": {"gradient_clipping": ...},
        "good": {"gradient_clipping": 1.0},
        "parser": "accepts",
    },
    {
        "code": "ZC671",
        "path": "zero_optimization.offload_optimizer.pin_memory",
        "severity": NOTE,
        "bad": zero(2, offload_optimizer={"device": "cpu"}),
        "good": zero(2, offload_optimizer=CPU),
        "parser": "accepts",
    },
    {
        "code": "ZC671",
        "path": "bf16.check_grad_overflow",
        "severity": NOTE,
        "bad": {**zero(2), "bf16.enabled": True},
        "good": {**zero(2), **bf16()},
        "parser": "accepts",
    },
    {
        "code": "ZC672",
        "path": "gradient_allreduce_op",
        "bad": {**zero(3), "gradient_allreduce_op": "sum"},
        "good": {**zero(2), "gradient_allreduce_op": "sum"},
        "parser": "raises",
    },
    {
        "code": "ZC672",
        "path": "gradient_allreduce_op",
        "bad": {**zero(1), "gradient_allreduce_op": "SUM", "compile.deepcompile": True},
        "good": {**zero(1), "gradient_allreduce_op": "mean", "compile.deepcompile": True},
        "also": ("ZC613",),
        "parser": "raises",
    },
    {
        "code": "ZC672",
        "path": "gradient_allreduce_op",
        "bad": {
            "gradient_allreduce_op": "sum",
            "gradient_accumulation_steps": 4,
            **zero(2, offload_optimizer=CPU, zenflow={"select_strategy": "step", "select_interval": 4, "update_interval": 4}),
        },
        "good": {"gradient_allreduce_op": "sum"},
        "parser": "raises",
    },
    {
        "code": "ZC673",
        "path": "prescale_gradients",
        "bad": {**zero(2), "prescale_gradients": True},
        "good": {**zero(2, reduce_scatter=False), "prescale_gradients": True},
        "parser": "accepts",
    },
    {
        "code": "ZC673",
        "path": "gradient_predivide_factor",
        "bad": {**zero(3), "gradient_predivide_factor": 2.0},
        "good": {**zero(1), "gradient_predivide_factor": 2.0},
        "parser": "accepts",
    },
    {
        "code": "ZC674",
        "path": "zero_optimization.compute_grad_norm",
        "bad": zero(1, compute_grad_norm=False),
        "good": {**zero(1, compute_grad_norm=False), "gradient_clipping": 0.0},
        "parser": "accepts",
    },
    {
        "code": "ZC674",
        "path": "zero_optimization.compute_grad_norm",
        "bad": {**zero(3, compute_grad_norm=False), "gradient_clipping": 0.0},
        "good": zero(3, compute_grad_norm=True),
        "also": ("ZC630",),
        "parser": "raises",
    },
    {
        "code": "ZC674",
        "path": "zero_optimization.compute_grad_norm",
        "bad": {**zero(2, compute_grad_norm=False, offload_optimizer=CPU), "gradient_clipping": 0.0},
        "good": zero(2, offload_optimizer=CPU),
        "parser": "accepts",
    },
    {
        "code": "ZC674",
        "path": "zero_optimization.compute_grad_norm",
        "bad": {**zero(1, compute_grad_norm=False), **bf16(), "data_types.grad_accum_dtype": "fp32", "gradient_clipping": 0.0},
        "good": {**zero(2, compute_grad_norm=False), **bf16(), "data_types.grad_accum_dtype": "fp32", "gradient_clipping": 0.0},
        "parser": "accepts",
    },
    {
        "code": "ZC676",
        "path": "managed_gradient_accumulation",
        "bad": {**zero(1, overlap_comm=True), "managed_gradient_accumulation": False},
        "good": {**zero(2, overlap_comm=True), "managed_gradient_accumulation": False},
        "parser": "accepts",
    },
    {
        "code": "ZC676",
        "path": "managed_gradient_accumulation",
        "bad": {**zero(1), "managed_gradient_accumulation": False, "compile.deepcompile": True},
        "good": {**zero(1), "managed_gradient_accumulation": False},
        "parser": "accepts",
    },
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['code']}-{case['path']}")
def test_case(case: Mapping[str, Any], examine: Callable[[Mapping[str, Any]], None]) -> None:
    examine(case)


def test_a_moved_default_names_release_and_values() -> None:
    (found,) = check_deepspeed({"train_batch_size": 1}, world_size=1)
    assert found.render() == (
        "warning[ZC671] deepspeed.gradient_clipping is not written: DeepSpeed 0.19.3 and later use 1.0, earlier ones 0.0\n"
        "  try: deepspeed.gradient_clipping=1.0"
    )
