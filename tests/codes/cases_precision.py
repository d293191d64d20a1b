"""Precision: ZC4xx."""

from __future__ import annotations

from tests.codes.case import c

CASES = [
    c("ZC401", "precision.dtype", {"hardware.compute_capability": "7.5"}, {"hardware.compute_capability": "8.0"}),
    c(
        "ZC402",
        "precision.tf32",
        {"precision": {"dtype": "fp32", "tf32": True}, "hardware.compute_capability": "7.0"},
        {"precision": {"dtype": "fp32", "tf32": True}},
    ),
    c("ZC402", "precision.tf32", {"precision.tf32": True}, {"precision.tf32": False}),
    c("ZC403", "precision.dtype", {"precision.dtype": "fp16", "hardware.accelerator": "cpu"}, {"precision.dtype": "fp16"}),
    c("ZC404", "precision.master_dtype", {"precision": {"dtype": "fp32", "master_dtype": "bf16"}}, {"precision.master_dtype": "bf16"}),
    c("ZC404", "precision.master_dtype", {"precision.master_dtype": "bf16", "parallelism.stage": 0}, {"parallelism.stage": 0}),
    c(
        "ZC404",
        "precision.master_dtype",
        {"precision": {"dtype": "bf16", "master_dtype": "bf16", "grad_accum_dtype": "fp32"}, "parallelism.stage": 1},
        {"precision": {"dtype": "bf16", "master_dtype": "bf16", "grad_accum_dtype": "fp32"}, "parallelism.stage": 2},
    ),
    c(
        "ZC405",
        "precision.master_dtype",
        {"precision.master_dtype": "bf16", "offload.optimizer": "cpu", "optimizer.type": "Adagrad"},
        {"precision.master_dtype": "bf16", "offload.optimizer": "cpu", "optimizer.type": "Adam"},
    ),
    c(
        "ZC406",
        "precision.grad_accum_dtype",
        {"precision.grad_accum_dtype": "fp32", "parallelism.stage": 0},
        {"precision.grad_accum_dtype": "fp32", "parallelism.stage": 1},
    ),
    c(
        "ZC407",
        "precision.initial_scale_power",
        {"precision.initial_scale_power": 12},
        {"precision": {"dtype": "fp16", "initial_scale_power": 12}},
    ),
    c(
        "ZC408",
        "precision.hysteresis",
        {"precision": {"dtype": "fp16", "hysteresis": 0}},
        {"precision": {"dtype": "fp16", "hysteresis": 1}},
    ),
]
