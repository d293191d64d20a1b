"""Mistakes that people really write into a DeepSpeed JSON, each with what the import must say of it."""

from __future__ import annotations

from typing import Any

from zerocfg.deepspeed.importer import import_config

MICRO = "train_micro_batch_size_per_gpu"


def mistakes() -> dict[str, tuple[dict[str, Any], str, str]]:
    """What people really write -> (file, code, part of the fix)."""
    micro = {MICRO: 1}
    adamw = {"type": "AdamW", "params": {"lr": 1e-4}}
    return {
        "offload_optimizer beside zero_optimization": (
            {**micro, "zero_optimization": {"stage": 2}, "offload_optimizer": {"device": "cpu"}},
            "ZC602",
            "move it to zero_optimization.offload_optimizer",
        ),
        "max_grad_norm at top level": ({**micro, "max_grad_norm": 1.0}, "ZC610", "use gradient_clipping"),
        "eps beside optimizer.params": ({**micro, "optimizer": {**adamw, "eps": 1e-6}}, "ZC602", "move it to optimizer.params.eps"),
        "offload_param at stage 2": (
            {**micro, "zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}}},
            "ZC632",
            "zero_optimization.stage=3",
        ),
        "nvme at stage 2": (
            {**micro, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "nvme", "nvme_path": "/nvme"}}},
            "ZC633",
            "stage 3 swaps to NVMe",
        ),
        "loss_scale inside bf16": ({**micro, "bf16": {"enabled": True, "loss_scale": 0}}, "ZC602", "bfloat16 has no loss scaling"),
        "aio.thread_count": ({**micro, "aio": {"thread_count": 1}}, "ZC603", "use aio.intra_op_parallelism"),
        "WarmupCosineLR with warmup_max_lr": (
            {**micro, "scheduler": {"type": "WarmupCosineLR", "params": {"total_num_steps": 5000, "warmup_max_lr": 1e-4}}},
            "ZC656",
            "remove scheduler.params.warmup_max_lr",
        ),
        "train_batch_size 4 with accumulation 8": (
            {"train_batch_size": 4, "gradient_accumulation_steps": 8},
            "ZC642",
            "train_batch_size=8",
        ),
        "accumulation as text": ({**micro, "gradient_accumulation_steps": "8"}, "ZC901", "became 8"),
        "bf16 auto outside HF": ({**micro, "bf16": {"enabled": "auto"}}, "ZC904", "--bf16"),
        "curriculum_learning present but off": ({**micro, "curriculum_learning": {"enabled": False}}, "ZC903", "which raises on it"),
        "fp16 and bf16 both on": ({**micro, "fp16": {"enabled": True}, "bf16": {"enabled": True}}, "ZC661", "fp16.enabled=false"),
    }  # fmt: skip


def named() -> list[tuple[str, bool, str]]:
    """(mistake, whether the import names it with its fix, the code)."""
    found = []
    for mistake, (config, code, fix) in mistakes().items():
        entries = import_config(config).entries
        found.append((mistake, any(entry.code == code and fix in entry.reason for entry in entries), code))
    return found
