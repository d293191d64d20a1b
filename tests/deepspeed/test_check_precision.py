"""fp16, bf16, autocast, data types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from zerocfg.diagnostics import Severity

WARNING = Severity.WARNING
CPU = {"device": "cpu", "pin_memory": True}


def zero(stage: int, **settings: Any) -> dict[str, Any]:
    return {"zero_optimization": {"stage": stage, **settings}}


def bf16(**settings: Any) -> dict[str, Any]:
    return {"bf16": {"enabled": True, "check_grad_overflow": True, **settings}}


AUTOCAST = {"torch_autocast": {"enabled": True, "dtype": "bfloat16"}}

CASES: list[dict[str, Any]] = [
    {"code": "ZC661", "path": "fp16.enabled", "bad": {**bf16(), "fp16.enabled": True}, "good": bf16(), "parser": "raises"},
    {
        "code": "ZC662",
        "path": "fp16.fp16_master_weights_and_grads",
        "bad": {"fp16": {"enabled": True, "fp16_master_weights_and_grads": True}},
        "good": {**zero(1, offload_optimizer=CPU), "fp16": {"enabled": True, "fp16_master_weights_and_grads": True}},
        "parser": "raises",
    },
    {
        "code": "ZC662",
        "path": "bf16.bf16_master_weights_and_grads",
        "bad": bf16(bf16_master_weights_and_grads=True),
        "good": bf16(),
        "parser": "raises",
    },
    {
        "code": "ZC663",
        "path": "bf16.bf16_master_weights_and_grads",
        "bad": {**zero(2), **bf16(bf16_master_weights_and_grads=True)},
        "good": {**zero(2), **bf16(bf16_master_weights_and_grads=True, bf16_optimizer_states=True)},
        "parser": "accepts",
    },
    {
        "code": "ZC663",
        "path": "bf16.bf16_master_weights_and_grads",
        "bad": {**zero(2, offload_optimizer=CPU), **bf16(bf16_master_weights_and_grads=True), "optimizer": {"type": "Lion", "params": {}}},
        "good": {
            **zero(2, offload_optimizer=CPU),
            **bf16(bf16_master_weights_and_grads=True),
            "optimizer": {"type": "AdamW", "params": {}},
        },
        "parser": "accepts",
    },
    {
        "code": "ZC663",
        "path": "fp16.fp16_master_weights_and_grads",
        "bad": {**zero(3), "fp16": {"enabled": True, "fp16_master_weights_and_grads": True}},
        "good": {**zero(3), "fp16.enabled": True},
        "parser": "accepts",
    },
    {
        "code": "ZC664",
        "path": "bf16.bf16_optimizer_states",
        "bad": {**zero(1), **bf16(bf16_optimizer_states=True)},
        "good": {**zero(1), **bf16()},
        "parser": "raises",
    },
    {
        "code": "ZC664",
        "path": "fp16.fp16_master_weights_and_grads",
        "bad": {
            **zero(1, offload_optimizer=CPU),
            **bf16(bf16_master_weights_and_grads=True),
            "fp16": {"enabled": False, "fp16_master_weights_and_grads": True},
        },
        "good": {**zero(1, offload_optimizer=CPU), **bf16(bf16_master_weights_and_grads=True)},
        "parser": "accepts",
    },
    {
        "code": "ZC665",
        "path": "fp16.min_loss_scale",
        "bad": {"fp16": {"enabled": True, "min_loss_scale": 0}},
        "good": {"fp16": {"enabled": True, "min_loss_scale": 1}},
        "parser": "raises",
    },
    {
        "code": "ZC665",
        "path": "fp16.loss_scale_window",
        "bad": {"fp16": {"enabled": True, "loss_scale_window": 0}},
        "good": {"fp16.enabled": True},
        "parser": "raises",
    },
    {
        "code": "ZC666",
        "path": "data_types.grad_accum_dtype",
        "bad": {**bf16(), "data_types.grad_accum_dtype": "fp32"},
        "good": {**bf16(), **zero(1), "data_types.grad_accum_dtype": "fp32"},
        "parser": "accepts",
    },
    {
        "code": "ZC667",
        "path": "data_types.param_dtype",
        "bad": {**bf16(), "data_types.param_dtype": "fp16"},
        "good": {**bf16(), "data_types.param_dtype": "bfloat16"},
        "parser": "accepts",
    },
    {"code": "ZC668", "path": "torch_autocast.dtype", "bad": {"torch_autocast.enabled": True}, "good": AUTOCAST, "parser": "accepts"},
    {
        "code": "ZC669",
        "path": "torch_autocast.enabled",
        "severity": WARNING,
        "bad": {**bf16(), **AUTOCAST},
        "good": AUTOCAST,
        "parser": "accepts",
    },
    {
        "code": "ZC670",
        "path": "fp16.enabled",
        "bad": {"fp16.enabled": True},
        "good": {},
        "options": {"compute_capability": (6, 1)},
        "parser": "accepts",
    },
    {
        "code": "ZC670",
        "path": "bf16.enabled",
        "severity": WARNING,
        "bad": bf16(),
        "good": {"fp16.enabled": True},
        "options": {"compute_capability": (7, 5)},
        "parser": "accepts",
    },
    {
        "code": "ZC670",
        "path": "fp16.enabled",
        "severity": WARNING,
        "bad": {"fp16.enabled": True},
        "good": bf16(),
        "options": {"accelerator": "cpu"},
        "parser": "accepts",
    },
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['code']}-{case['path']}")
def test_case(case: Mapping[str, Any], examine: Callable[[Mapping[str, Any]], None]) -> None:
    examine(case)
