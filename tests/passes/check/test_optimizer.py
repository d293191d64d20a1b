from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from zerocfg.passes.check.optimizer import CHECKS

MUON = {"type": "Muon", "lr": 1e-4, "muon_lr": 0.02}
CASES: list[tuple[dict[str, Any], str]] = [
    ({}, ""),
    ({"optimizer.type": "Lamb", "parallelism.stage": 0}, ""),
    (
        {
            "optimizer.type": "Lamb",
            "parallelism.stage": 1,
            "offload.optimizer": "cpu",
            "precision": {"dtype": "fp16", "loss_scale": 128.0},
        },
        """\
error[ZC320] optimizer.type=Lamb needs dynamic loss scaling, not precision.loss_scale=128.0
  try: precision.loss_scale=0
error[ZC320] offload.optimizer=cpu cannot be used with Lamb: it has no CPU version
  try: optimizer=adamw, or offload=none
warning[ZC320] optimizer.type=Lamb at stage 1 is not LAMB: one trust ratio a rank's flat shard, not one a layer
  ZeRO hands the optimizer one flat tensor; DeepSpeed calls it untested (zero/utils.py:45)
  try: optimizer=adamw""",
    ),
    (
        {"optimizer.type": "Lamb", "precision.master_dtype": "bf16"},
        """\
error[ZC320] precision.master_dtype=bf16 fails at the first step with Lamb, which has no bf16 kernel
  try: precision.master_dtype=fp32
warning[ZC320] optimizer.type=Lamb at stage 3 is not LAMB: one trust ratio a rank's flat shard, not one a layer
  ZeRO hands the optimizer one flat tensor; DeepSpeed calls it untested (zero/utils.py:45)
  try: parallelism=ddp, or optimizer=adamw""",
    ),
    (
        {"optimizer.type": "Lion", "hardware.accelerator": "cpu"},
        "error[ZC321] optimizer.type=Lion needs cuda: it is a CUDA kernel\n  try: optimizer=adamw",
    ),
    ({"optimizer.type": "Lion", "hardware.accelerator": "cpu", "offload.optimizer": "cpu"}, ""),
    ({"optimizer.type": "Adagrad", "hardware.accelerator": "cpu"}, ""),
    (
        {
            "optimizer": MUON,
            "parallelism": {"stage": 3, "reduce_scatter": True, "zero_quantized_gradients": True},
            "scheduler.type": "WarmupDecayLR",
        },
        """\
error[ZC322] parallelism.reduce_scatter=true cannot be used with Muon at stage 3
  try: parallelism.reduce_scatter=false
error[ZC322] parallelism.zero_quantized_gradients=true cannot be used with Muon at stage 3
  try: parallelism.zero_quantized_gradients=false
error[ZC323] scheduler.type=WarmupDecayLR sets one rate for all parameters: optimizer.muon_lr and adam_lr would be lost
  muon_lr = 0.02, adam_lr = 0.0001
  try: scheduler=warmup_cosine, which scales each rate, or optimizer.muon_lr=null optimizer.adam_lr=null""",
    ),
    ({"optimizer": MUON, "parallelism": {"stage": 2, "reduce_scatter": True}}, ""),
    ({"optimizer": MUON, "scheduler.type": "WarmupCosineLR"}, ""),
    ({"optimizer": {**MUON, "adam_lr": 0.02}, "scheduler.type": "WarmupLR"}, ""),
    ({"optimizer": {"type": "Muon", "lr": 1e-4}, "scheduler.type": "OneCycle"}, ""),
    ({"optimizer.type": None, "scheduler.type": "WarmupLR"}, ""),
]


@pytest.mark.parametrize(("changes", "report"), CASES)
def test_report(changes: dict[str, Any], report: str, checked: Callable[..., str]) -> None:
    assert checked(changes, CHECKS) == report
