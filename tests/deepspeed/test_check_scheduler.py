"""Schedules: classes, arguments, steps that do not add up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from zerocfg.diagnostics import Severity

WARNING, NOTE = Severity.WARNING, Severity.NOTE


def optimizer(type: str, /, _stage: int = 0, **params: Any) -> dict[str, Any]:
    return {"optimizer": {"type": type, "params": params}, **({"zero_optimization.stage": _stage} if _stage else {})}


def schedule(type: str, **params: Any) -> dict[str, Any]:
    return {"scheduler": {"type": type, "params": params}}


WARM = {"total_num_steps": 100, "warmup_num_steps": 10}

CASES: list[dict[str, Any]] = [
    {"code": "ZC655", "path": "scheduler.type", "bad": schedule("WarmupDecay"), "good": schedule("WarmupLR"), "parser": "accepts"},
    {
        "code": "ZC656",
        "path": "scheduler.params.warmup_max_lr",
        "bad": schedule("WarmupCosineLR", **WARM, warmup_max_lr=1e-4),
        "good": schedule("WarmupCosineLR", **WARM),
        "parser": "accepts",
    },
    {
        "code": "ZC656",
        "path": "scheduler.params.total_num_steps",
        "bad": schedule("WarmupLR", **WARM),
        "good": schedule("WarmupDecayLR", **WARM),
        "parser": "accepts",
    },
    {
        "code": "ZC657",
        "path": "scheduler.params.total_num_steps",
        "bad": schedule("WarmupCosineLR"),
        "good": schedule("WarmupCosineLR", **WARM),
        "parser": "accepts",
    },
    {"code": "ZC657", "path": "scheduler.params", "bad": {"scheduler.type": "WarmupLR"}, "good": schedule("WarmupLR"), "parser": "accepts"},
    {
        "code": "ZC657",
        "path": "scheduler.params.warmup_num_steps",
        "bad": schedule("WarmupLR", warmup_num_steps=100.0),
        "good": schedule("WarmupLR", warmup_num_steps=100),
        "parser": "accepts",
    },
    {
        "code": "ZC657",
        "path": "scheduler.params.warmup_num_steps",
        "bad": schedule("WarmupLR", warmup_num_steps=0),
        "good": schedule("WarmupLR", warmup_num_steps=1),
        "parser": "accepts",
    },
    {
        "code": "ZC657",
        "path": "scheduler.params.warmup_type",
        "bad": schedule("WarmupLR", warmup_type="cosine"),
        "good": schedule("WarmupLR", warmup_type="linear"),
        "parser": "accepts",
    },
    {
        "code": "ZC658",
        "path": "scheduler.params.warmup_num_steps",
        "severity": WARNING,
        "bad": schedule("WarmupDecayLR", total_num_steps=100, warmup_num_steps=200),
        "good": schedule("WarmupDecayLR", **WARM),
        "parser": "accepts",
    },
    {
        "code": "ZC658",
        "path": "scheduler.params.warmup_num_steps",
        "severity": WARNING,
        "bad": schedule("WarmupDecayLR", total_num_steps=100),
        "good": schedule("WarmupDecayLR", total_num_steps=1000),
        "parser": "accepts",
    },
    {
        "code": "ZC659",
        "path": "scheduler.params.total_num_steps",
        "severity": NOTE,
        "bad": {"gradient_accumulation_steps": 4, **schedule("WarmupDecayLR", **WARM)},
        "good": schedule("WarmupDecayLR", **WARM),
        "parser": "accepts",
    },
    {
        "code": "ZC660",
        "path": "scheduler.params.warmup_max_lr",
        "severity": WARNING,
        "bad": {**optimizer("AdamW", lr=1e-4), **schedule("WarmupDecayLR", **WARM)},
        "good": {**optimizer("AdamW", lr=1e-4), **schedule("WarmupDecayLR", **WARM, warmup_max_lr=1e-4)},
        "parser": "accepts",
    },
    {
        "code": "ZC660",
        "path": "scheduler.params.warmup_max_lr",
        "severity": WARNING,
        "bad": {**optimizer("AdamW", lr=1e-4), **schedule("WarmupLR", warmup_max_lr=1e-3)},
        "good": {**optimizer("AdamW", lr=1e-4), **schedule("WarmupLR")},
        "parser": "accepts",
    },
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['code']}-{case['path']}")
def test_case(case: Mapping[str, Any], examine: Callable[[Mapping[str, Any]], None]) -> None:
    examine(case)
