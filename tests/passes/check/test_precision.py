from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from zerocfg.passes.check.precision import CHECKS

LOWMEM = {"dtype": "bf16", "master_dtype": "bf16"}
CASES: list[tuple[dict[str, Any], str]] = [
    ({}, ""),
    ({"precision": {"dtype": "fp32", "tf32": True}}, ""),
    ({"precision": {"dtype": "fp16", "loss_scale": 1024.0, "hysteresis": 4}}, ""),
    ({"precision": {"dtype": "bf16"}, "hardware.accelerator": "cpu"}, ""),
    (
        {"precision": {"dtype": "bf16", "tf32": True}, "hardware.compute_capability": "7.5", "hardware.gpu": "T4"},
        """\
error[ZC401] precision.dtype=bf16 needs compute capability 8.0; T4 has 7.5
  below 8.0 bf16 products are emulated: DeepSpeed accepts it, and it crawls
  try: precision=fp16
error[ZC402] precision.tf32=true needs a GPU of compute capability 8.0; T4 has 7.5
  try: precision.tf32=false""",
    ),
    (
        {"precision": {"dtype": "fp32", "tf32": True}, "hardware.accelerator": "cpu"},
        """\
error[ZC402] precision.tf32=true needs a GPU of compute capability 8.0; this run is on cpu
  try: precision.tf32=false""",
    ),
    (
        {"precision": {"dtype": "bf16", "tf32": True}},
        """\
warning[ZC402] precision.tf32=true speeds up fp32 products only; the model is bf16
  try: precision.tf32=false""",
    ),
    (
        {"precision": {"dtype": "fp16"}, "hardware.accelerator": "cpu"},
        """\
warning[ZC403] precision.dtype=fp16 works only on processors with fp16 arithmetic; DeepSpeed refuses it on others at start
  try: precision=bf16 or precision=fp32""",
    ),
    *(({"precision": LOWMEM, "parallelism.stage": stage}, "") for stage in (1, 2, 3)),
    *(({"precision": LOWMEM, "parallelism.stage": stage, "offload.optimizer": "cpu"}, "") for stage in (1, 2, 3)),
    (
        {"precision": LOWMEM, "parallelism.stage": 0},
        """\
error[ZC404] precision.master_dtype=bf16 needs ZeRO stage 1, 2 or 3, not stage 0
  try: parallelism=zero1, or precision.master_dtype=fp32""",
    ),
    (
        {"precision": {"dtype": "fp16", "master_dtype": "fp16"}},
        """\
error[ZC404] precision.master_dtype=fp16 works only as bf16 with precision.dtype=bf16, not with fp16
  try: precision.master_dtype=fp32, or precision=bf16_lowmem""",
    ),
    (
        {"precision": {**LOWMEM, "grad_accum_dtype": "fp32"}, "parallelism.stage": 1},
        """\
error[ZC404] precision.master_dtype=bf16 has no effect at stage 1 with precision.grad_accum_dtype=fp32: the copy stays fp32
  DeepSpeed then takes its BF16_Optimizer, which does not read it (engine.py:2305)
  try: precision.grad_accum_dtype=bf16, or parallelism=zero2""",
    ),
    ({"precision": {**LOWMEM, "grad_accum_dtype": "fp32"}, "parallelism.stage": 1, "offload.optimizer": "cpu"}, ""),
    (
        {"precision": LOWMEM, "offload.optimizer": "cpu", "optimizer.type": "Lion"},
        """\
error[ZC405] precision.master_dtype=bf16 with an offloaded optimizer needs DeepSpeed's CPU Adam, not Lion
  try: optimizer=adamw, or precision.master_dtype=fp32""",
    ),
    (
        {"precision": LOWMEM, "offload.optimizer": "cpu", "hardware.accelerator": "cpu"},
        """\
error[ZC405] precision.master_dtype=bf16 with an offloaded optimizer needs DeepSpeed's CPU Adam, not torch.optim's AdamW
  try: precision.master_dtype=fp32""",
    ),
    (
        {"precision": {"dtype": "bf16", "grad_accum_dtype": "fp32"}, "parallelism.stage": 0},
        """\
error[ZC406] precision.grad_accum_dtype=fp32 with dtype bf16 needs stage 1, 2 or 3, not 0
  try: parallelism=zero1, or precision.grad_accum_dtype=null""",
    ),
    (
        {"precision": {"dtype": "bf16", "loss_scale": 128.0, "min_loss_scale": 0}},
        """\
error[ZC407] precision.loss_scale=128.0 has no effect with dtype bf16: only fp16 scales the loss
  try: precision=fp16, or precision.loss_scale=0, its default
error[ZC407] precision.min_loss_scale=0 has no effect with dtype bf16: only fp16 scales the loss
  try: precision=fp16, or precision.min_loss_scale=1, its default
error[ZC408] precision.min_loss_scale=0 must be at least 1
  try: precision.min_loss_scale=1""",
    ),
    (
        {"precision": {"dtype": "fp16", "loss_scale": -1.0, "initial_scale_power": -1, "loss_scale_window": 0, "hysteresis": 0}},
        """\
error[ZC408] precision.loss_scale=-1.0 must be at least 0
  try: precision.loss_scale=0
error[ZC408] precision.initial_scale_power=-1 must be at least 0
  try: precision.initial_scale_power=0
error[ZC408] precision.loss_scale_window=0 must be at least 1
  try: precision.loss_scale_window=1
error[ZC408] precision.hysteresis=0 must be at least 1
  try: precision.hysteresis=1""",
    ),
]


@pytest.mark.parametrize(("changes", "report"), CASES)
def test_report(changes: dict[str, Any], report: str, checked: Callable[..., str]) -> None:
    assert checked(changes, CHECKS) == report
