from __future__ import annotations

from typing import Any

import pytest

from zerocfg.passes.resolve.checkpoint import resolve_checkpoint
from zerocfg.plan import CheckpointPlan
from zerocfg.schema.checkpoint import CheckpointConfig, OnError

OFF: dict[str, Any] = {
    "enabled": False,
    "every_steps": 0,
    "every_minutes": 0.0,
    "keep_last": 2,
    "async_save": False,
    "directory": "checkpoints",
    "resume": "auto",
    "on_error": "stop",
    "consolidate_on_end": False,
    "max_requeues": 20,
}


@pytest.mark.parametrize(
    ("config", "expected", "why"),
    [
        ({}, {}, "neither every_steps nor every_minutes is given"),
        ({"enabled": True}, {"enabled": True}, ""),
        ({"every_steps": 5.0}, {"enabled": True, "every_steps": 5}, "every_steps is given"),
        ({"every_minutes": 0.5}, {"enabled": True, "every_minutes": 0.5}, "every_minutes is given"),
        ({"enabled": False, "every_steps": 5}, {"every_steps": 5}, ""),
        (
            {"enabled": True, "keep_last": 0, "resume": "/a/b", "on_error": OnError["continue"]},
            {"enabled": True, "keep_last": 0, "resume": "/a/b", "on_error": "continue"},
            "",
        ),
    ],
)
def test_resolve(config: dict[str, Any], expected: dict[str, Any], why: str) -> None:
    resolved = resolve_checkpoint(CheckpointConfig(**config))
    assert resolved.value == CheckpointPlan(**{**OFF, **expected})
    assert resolved.reasons["enabled"].text == why
    assert list(resolved.problems) == []


def test_all_problems_at_once() -> None:
    config = CheckpointConfig(every_steps=0, every_minutes=-1.0, keep_last=-1, directory="", resume=" ", max_requeues=-2)
    assert [(d.code, d.path) for d in resolve_checkpoint(config).problems] == [
        ("ZC240", "checkpoint.every_steps"),
        ("ZC240", "checkpoint.keep_last"),
        ("ZC240", "checkpoint.max_requeues"),
        ("ZC240", "checkpoint.every_minutes"),
        ("ZC240", "checkpoint.directory"),
        ("ZC240", "checkpoint.resume"),
    ]
