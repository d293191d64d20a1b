from __future__ import annotations

from typing import Any

import pytest

from zerocfg.passes.resolve.hardware import resolve_hardware
from zerocfg.passes.resolve.optimizer import resolve_optimizer
from zerocfg.plan import OptimizerPlan
from zerocfg.schema.hardware import HardwareConfig
from zerocfg.schema.optimizer import OptimizerConfig
from zerocfg.schema.types import Accelerator

CUDA = resolve_hardware(HardwareConfig(accelerator=Accelerator.cuda, gpus_per_node=1, memory_bytes=1, compute_capability="8.0"), None).value
CPU = resolve_hardware(HardwareConfig(accelerator=Accelerator.cpu, gpus_per_node=1, memory_bytes=1), None).value


@pytest.mark.parametrize(
    ("config", "on_cuda", "on_cpu"),
    [
        (
            {"type": "AdamW", "lr": 2e-5, "weight_decay": 0.01},
            ("AdamW", {"lr": 2e-5, "weight_decay": 0.01}),
            ("AdamW", {"lr": 2e-5, "weight_decay": 0.01, "torch_adam": True}),
        ),
        (
            {"type": "adam", "betas": [0.9, 0.95], "eps": 1e-6, "bias_correction": True, "adam_w_mode": False},
            ("Adam", {"lr": 1e-4, "betas": [0.9, 0.95], "eps": 1e-6, "bias_correction": True, "adam_w_mode": False}),
            ("Adam", {"lr": 1e-4, "betas": [0.9, 0.95], "eps": 1e-6, "adam_w_mode": False, "torch_adam": True}),
        ),
        # torch's Adam cannot leave the correction out, so DeepSpeed's has to be built
        (
            {"type": "ADAMW", "bias_correction": False},
            ("AdamW", {"lr": 1e-4, "bias_correction": False}),
            ("AdamW", {"lr": 1e-4, "bias_correction": False}),
        ),
        (
            {"type": "Lion", "betas": [0.9, 0.99]},
            ("Lion", {"lr": 1e-4, "betas": [0.9, 0.99]}),
            ("Lion", {"lr": 1e-4, "betas": [0.9, 0.99]}),
        ),
        ({"type": "Adagrad", "eps": 1e-10}, ("Adagrad", {"lr": 1e-4, "eps": 1e-10}), ("Adagrad", {"lr": 1e-4, "eps": 1e-10})),
        (
            {"type": "Lamb", "max_coeff": 10.0, "min_coeff": 0.01},
            ("Lamb", {"lr": 1e-4, "max_coeff": 10.0, "min_coeff": 0.01}),
            ("Lamb", {"lr": 1e-4, "max_coeff": 10.0, "min_coeff": 0.01}),
        ),
        (
            {"type": "Muon", "muon_lr": 0.02, "adam_lr": 3e-4, "momentum": 0.95},
            ("Muon", {"lr": 1e-4, "muon_lr": 0.02, "adam_lr": 3e-4, "momentum": 0.95}),
            ("Muon", {"lr": 1e-4, "muon_lr": 0.02, "adam_lr": 3e-4, "momentum": 0.95, "torch_adam": True}),
        ),
        ({"type": None}, ("", {}), ("", {})),
    ],
)
def test_parameters(config: dict[str, Any], on_cuda: tuple[str, dict[str, Any]], on_cpu: tuple[str, dict[str, Any]]) -> None:
    for hardware, (name, params) in ((CUDA, on_cuda), (CPU, on_cpu)):
        resolved = resolve_optimizer(OptimizerConfig(**config, gradient_clipping=0.5), hardware)
        assert resolved.value == OptimizerPlan(type=name, params=params, gradient_clipping=0.5)
        assert {f"params.{key}" for key in params} | {"type", "gradient_clipping"} <= set(resolved.reasons)
        assert list(resolved.problems) == []


@pytest.mark.parametrize(
    ("config", "report"),
    [
        (
            {"type": "Adma", "eps": 1e-8},
            """\
error[ZC140] optimizer.type=Adma is not an optimizer that DeepSpeed builds
  it builds AdamW, Adam, Lion, Adagrad, Lamb, Muon
  try: optimizer=adam""",
        ),
        (
            {"type": "AdamW", "momentum": 0.9, "adam_w_mode": True},
            """\
error[ZC141] optimizer.adam_w_mode=True has no meaning for AdamW
  AdamW takes lr, betas, eps, weight_decay, bias_correction
  try: optimizer.adam_w_mode=null
error[ZC141] optimizer.momentum=0.9 has no meaning for AdamW
  AdamW takes lr, betas, eps, weight_decay, bias_correction
  try: optimizer.momentum=null""",
        ),
        (
            {"type": None, "weight_decay": 0.1},
            """\
error[ZC141] optimizer.weight_decay=0.1 has no meaning for the training script's own optimizer
  try: optimizer.weight_decay=null""",
        ),
        (
            {"type": "Muon", "lr": 0.0, "muon_lr": -1.0, "weight_decay": -0.1, "eps": -1.0, "betas": [0.9], "momentum": 1.0},
            """\
error[ZC142] optimizer.lr=0.0 is not above 0
  try: optimizer.lr=1e-4
error[ZC142] optimizer.muon_lr=-1.0 is not above 0
  try: optimizer.muon_lr=1e-4
error[ZC142] optimizer.weight_decay=-0.1 is not 0 or more
  try: optimizer.weight_decay=0
error[ZC142] optimizer.eps=-1.0 is not 0 or more
  try: optimizer.eps=1e-8
error[ZC142] optimizer.betas=[0.9] is not two numbers in [0, 1)
  try: optimizer.betas=[0.9,0.95]
error[ZC142] optimizer.momentum=1.0 is not in [0, 1)
  try: optimizer.momentum=0.95""",
        ),
        (
            {"type": "Lamb", "min_coeff": 0.5, "max_coeff": 0.1},
            """\
error[ZC142] optimizer.max_coeff=0.1 is not at least min_coeff
  try: optimizer.max_coeff=10.0""",
        ),
    ],
)
def test_problems(config: dict[str, Any], report: str) -> None:
    assert "\n".join(problem.render() for problem in resolve_optimizer(OptimizerConfig(**config), CUDA).problems) == report
