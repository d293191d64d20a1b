"""Optimizers: classes, arguments, places."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from zerocfg.deepspeed.check import check_deepspeed
from zerocfg.diagnostics import Severity

WARNING = Severity.WARNING


def optimizer(type: str, /, _stage: int = 0, **params: Any) -> dict[str, Any]:
    return {"optimizer": {"type": type, "params": params}, **({"zero_optimization.stage": _stage} if _stage else {})}


CPU = {"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu", "pin_memory": True}}}

CASES: list[dict[str, Any]] = [
    {"code": "ZC645", "path": "optimizer.type", "bad": optimizer("AdamX"), "good": optimizer("AdamW"), "parser": "accepts"},
    {"code": "ZC645", "path": "optimizer.type", "bad": optimizer("OneBitAdam"), "good": optimizer("adamw"), "parser": "accepts"},
    {"code": "ZC645", "path": "optimizer.type", "bad": optimizer("sgd"), "good": optimizer("SGD"), "parser": "accepts"},
    {
        "code": "ZC646",
        "path": "optimizer.params.betaz",
        "bad": optimizer("AdamW", betaz=[0.9, 0.95]),
        "good": optimizer("AdamW", betas=[0.9, 0.95]),
        "parser": "accepts",
    },
    {
        "code": "ZC646",
        "path": "optimizer.params.momentum",
        "bad": optimizer("Adam", momentum=0.9),
        "good": optimizer("SGD", momentum=0.9),
        "parser": "accepts",
    },
    {
        "code": "ZC646",
        "path": "optimizer.params.set_grad_none",
        "bad": {**CPU, **optimizer("AdamW", set_grad_none=True)},
        "good": optimizer("AdamW", set_grad_none=True),
        "parser": "accepts",
    },
    {
        "code": "ZC646",
        "path": "optimizer.params.nesterov",
        "bad": optimizer("Muon", 1, nesterov=True),
        "good": optimizer("Muon", 1, momentum=0.9),
        "parser": "accepts",
    },
    {
        "code": "ZC646",
        "path": "optimizer.params.bias_correction",
        "bad": optimizer("AdamW", torch_adam=True, bias_correction=True),
        "good": optimizer("AdamW", torch_adam=True, foreach=True),
        "parser": "accepts",
    },
    {
        "code": "ZC647",
        "path": "optimizer.params.max_grad_norm",
        "bad": optimizer("Lamb", max_grad_norm=1.0),
        "good": optimizer("Lamb"),
        "parser": "accepts",
    },
    {
        "code": "ZC648",
        "path": "optimizer.params.amsgrad",
        "bad": optimizer("AdamW", amsgrad=True),
        "good": optimizer("AdamW", torch_adam=True, amsgrad=True),
        "parser": "accepts",
    },
    {
        "code": "ZC648",
        "path": "optimizer.params.betas",
        "bad": optimizer("AdamW", betas=[0.9]),
        "good": optimizer("AdamW", betas=[0.9, 0.99]),
        "parser": "accepts",
    },
    {
        "code": "ZC648",
        "path": "optimizer.params.lr",
        "bad": optimizer("AdamW", lr=-1e-4),
        "good": optimizer("AdamW", lr=1e-4),
        "parser": "accepts",
    },
    {
        "code": "ZC648",
        "path": "optimizer.params.ns_method",
        "bad": optimizer("Muon", 1, ns_method="qr"),
        "good": optimizer("Muon", 1, ns_method="standard"),
        "parser": "accepts",
    },
    {
        "code": "ZC649",
        "path": "optimizer.type",
        "severity": WARNING,
        "bad": optimizer("Adam", weight_decay=0.01),
        "good": optimizer("Adam", weight_decay=0.01, adam_w_mode=False),
        "parser": "accepts",
    },
    {
        "code": "ZC649",
        "path": "optimizer.params.adam_w_mode",
        "bad": optimizer("AdamW", adam_w_mode=False),
        "good": optimizer("Adam", adam_w_mode=False),
        "parser": "accepts",
    },
    {
        "code": "ZC649",
        "path": "optimizer.params.fp32_optimizer_states",
        "bad": optimizer("AdamW", fp32_optimizer_states=False),
        "good": {**CPU, **optimizer("AdamW", fp32_optimizer_states=False)},
        "parser": "accepts",
    },
    {
        "code": "ZC649",
        "path": "optimizer.params.foreach",
        "bad": optimizer("Muon", 1, foreach=True),
        "good": optimizer("Muon", 1),
        "parser": "accepts",
    },
    {
        "code": "ZC650",
        "path": "optimizer.type",
        "bad": optimizer("SGD", 1),
        "good": {**optimizer("SGD", 1), "zero_allow_untested_optimizer": True},
        "parser": "accepts",
    },
    {"code": "ZC650", "path": "optimizer.type", "bad": optimizer("Lamb", 1), "good": optimizer("Lion", 1), "parser": "accepts"},
    {
        "code": "ZC651",
        "path": "fp16.loss_scale",
        "bad": {**optimizer("Lamb"), "fp16": {"enabled": True, "loss_scale": 128}},
        "good": {**optimizer("Lamb"), "fp16.enabled": True},
        "parser": "accepts",
    },
    {
        "code": "ZC652",
        "path": "optimizer.legacy_fusion",
        "bad": {"optimizer": {"type": "Adam", "legacy_fusion": True}, "fp16.enabled": True},
        "good": {"optimizer": {"type": "Adam"}, "fp16.enabled": True},
        "parser": "accepts",
    },
    {
        "code": "ZC653",
        "path": "zero_optimization.reduce_scatter",
        "bad": optimizer("Muon", 3),
        "good": {"optimizer": {"type": "Muon", "params": {}}, "zero_optimization": {"stage": 3, "reduce_scatter": False}},
        "parser": "accepts",
    },
    {
        "code": "ZC653",
        "path": "zero_optimization.zero_quantized_gradients",
        "bad": {"optimizer": {"type": "Muon"}, "zero_optimization": {"stage": 3, "zero_quantized_gradients": True}},
        "good": {"optimizer": {"type": "Muon"}, "zero_optimization": {"stage": 3, "reduce_scatter": False}},
        "parser": "accepts",
    },
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['code']}-{case['path']}")
def test_case(case: Mapping[str, Any], examine: Callable[[Mapping[str, Any]], None]) -> None:
    examine(case)


def hint(changes: dict[str, Any]) -> str:
    config = {"train_batch_size": 1, "gradient_clipping": 1.0, **changes}
    return check_deepspeed(config, world_size=1)[0].hint


def test_the_nearest_class_is_named() -> None:
    assert hint({"optimizer": {"type": "sgd", "params": {"lr": 0.1}}}) == 'deepspeed.optimizer.type="SGD"'
    assert hint({"optimizer": {"type": "ZeroOneAdam", "params": {"lr": 0.1}}}) == 'deepspeed.optimizer.type="AdamW"'
    assert hint({"scheduler": {"type": "WarmupDecayLr", "params": {}}}) == 'deepspeed.scheduler.type="WarmupDecayLR"'


def test_arguments_of_a_class_that_is_not_installed_are_left_alone() -> None:
    config = {"train_batch_size": 1, "gradient_clipping": 1.0, "optimizer": {"type": "MuAdam", "params": {"whatever": 1}}}
    assert check_deepspeed(config, world_size=1) == []


def test_the_engine_takes_what_the_table_lists(config_class: Any) -> None:
    """FusedAdam and DeepSpeedCPUAdam do not share their arguments; nor do the schedules."""
    from deepspeed.ops.adam import DeepSpeedCPUAdam, FusedAdam
    from deepspeed.runtime.lr_schedules import WarmupCosineLR, WarmupLR

    for class_, name in (
        (FusedAdam, "betaz"),
        (DeepSpeedCPUAdam, "set_grad_none"),
        (WarmupCosineLR, "warmup_max_lr"),
        (WarmupLR, "total_num_steps"),
    ):
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
            class_([], **{name: 1})
