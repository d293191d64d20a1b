from __future__ import annotations

from collections.abc import Callable
from typing import Any

from zerocfg.passes.check.checkpoint import CHECKS

Checked = Callable[[dict[str, Any], tuple[Any, ...]], str]


def test_off_but_configured(checked: Checked) -> None:
    report = checked({"checkpoint": {"enabled": False, "every_steps": 5, "async_save": True}}, CHECKS)
    assert report == (
        "error[ZC241] checkpoint.every_steps=5 has no effect: no checkpoints are saved\n"
        "  try: checkpoint=steps, or checkpoint.enabled=true\n"
        "error[ZC241] checkpoint.async_save=true has no effect: no checkpoints are saved\n"
        "  try: checkpoint=steps, or checkpoint.enabled=true"
    )
    assert checked({"checkpoint.resume": "never"}, CHECKS) == ""
    assert checked({"checkpoint": {"every_minutes": 5.0, "async_save": True, "consolidate_on_end": True}}, CHECKS) == ""


def test_consolidation_of_cut_weights(checked: Checked) -> None:
    on = {"checkpoint": {"every_steps": 5, "consolidate_on_end": True}}
    assert checked({**on, "parallelism.tensor_parallel_degree": 4}, CHECKS) == (
        "error[ZC242] checkpoint.consolidate_on_end=true cannot join weights that are cut over 4 tensor-parallel ranks\n"
        "  try: checkpoint.consolidate_on_end=false"
    )


def test_signals_that_are_not_passed_on(checked: Checked) -> None:
    config = {"checkpoint.every_steps": 5, "torchrun.signals_to_handle": ["SIGINT"]}
    assert checked(config, CHECKS) == (
        "warning[ZC243] torchrun.signals_to_handle lacks SIGTERM and SIGUSR2: a run that is stopped by it saves no checkpoint\n"
        "  try: torchrun.signals_to_handle=[SIGTERM,SIGINT,SIGUSR2]"
    )
    assert checked({"torchrun.signals_to_handle": ["SIGINT"]}, CHECKS) == ""
