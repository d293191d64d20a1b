"""What is in effect: equal where DeepSpeed understands the same, and every change of one value is seen."""

# ruff: noqa: E501 - one case a line

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.deepspeed.importer import random_configs
from zerocfg.deepspeed.effective import Difference, differences, effective, run_differences
from zerocfg.deepspeed.importer import modern
from zerocfg.deepspeed.keys import all_keys

BASE: dict[str, Any] = {"train_micro_batch_size_per_gpu": 2}

SAME: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"gradient_clipping": 1.0, "fp16": {"enabled": False}, "zero_optimization": {"stage": 0, "stage3_max_live_parameters": 5}}),
    ({"bf16": {"enabled": True}}, {"bf16": {"enabled": True}, "communication_data_type": "bf16", "data_types": {"grad_accum_dtype": "bfloat16"}}),
    ({"zero_optimization": {"stage": 3}}, {"zero_optimization": {"stage": 3, "overlap_comm": True, "offload_param": {"device": "none", "pin_memory": False}}}),
    ({"zero_optimization": {"stage": 2}}, {"zero_optimization": {"stage": 2, "overlap_comm": False, "prefetch_bucket_size": 5}}),
    ({"zero_optimization": {"stage": 3, "zero_hpz_partition_size": 0}}, {"zero_optimization": {"stage": 3, "zero_hpz_partition_size": 1}}),
    ({"tensor_parallel": {"autotp_size": 1, "preset_model": "llama"}}, {}),
    ({"optimizer": {"type": "Adam"}}, {"optimizer": {"type": "ADAMW", "params": {"lr": 1e-3, "weight_decay": 0}}}),
    (
        {"optimizer": {"type": "AdamW", "params": {"lr": 5}}, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 1}}},
        {"optimizer": {"type": "AdamW", "params": {"lr": 5}}, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 2, "warmup_max_lr": 5}}},
    ),
    ({"flops_profiler": {"enabled": False, "profile_step": 9}}, {}),
    ({"unknown": 1, "pipeline": {"stages": 3}}, {}),
    ({"train_batch_size": 16, "gradient_accumulation_steps": 1}, {"gradient_accumulation_steps": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("first", "second"), SAME, ids=str)
def test_what_the_engine_takes_for_the_same_is_the_same(first: dict[str, Any], second: dict[str, Any]) -> None:
    assert differences(effective({**BASE, **first}, world_size=8), effective({**BASE, **second}, world_size=8)) == []


DIFFERENT: list[tuple[dict[str, Any], list[tuple[str, Any, Any]]]] = [
    ({"gradient_clipping": 0.0}, [("gradient_clipping", 1.0, 0.0)]),
    ({"zero_optimization": {"stage": 1}}, [("zero_optimization.stage", 0, 1)]),
    ({"optimizer": {"type": "Adam", "params": {"adam_w_mode": False}}}, [("optimizer.params.adam_w_mode", None, False), ("optimizer.type", None, "adam")]),
    ({"optimizer": {"type": "AdamW", "params": {"lr": 2}}}, [("optimizer.params.lr", None, 2), ("optimizer.type", None, "adamw")]),
    ({"scheduler": {"type": "WarmupLR"}}, [("scheduler.type", None, "WarmupLR")]),
    ({"train_micro_batch_size_per_gpu": 4}, [("train_batch_size", 16, 32), ("train_micro_batch_size_per_gpu", 2, 4)]),
    ({"train_batch_size": 64}, [("gradient_accumulation_steps", 1, 4), ("train_batch_size", 16, 64)]),
    ({"zero_optimization": {"stage": 2, "cpu_offload": True}}, [("zero_optimization.offload_optimizer.device", None, "cpu"), ("zero_optimization.stage", 0, 2)]),
    ({"autotuning": {"enabled": True, "arg_mappings": {"a": "b"}}}, [("autotuning.arg_mappings", None, {"a": "b"}), ("autotuning.enabled", False, True)]),
]  # fmt: skip


@pytest.mark.parametrize(("change", "wanted"), DIFFERENT, ids=str)
def test_what_changes(change: dict[str, Any], wanted: list[tuple[str, Any, Any]]) -> None:
    found = run_differences(effective(BASE, world_size=8), effective({**BASE, **change}, world_size=8))
    assert [(d.path, d.before, d.after) for d in found] == wanted


@pytest.mark.parametrize(
    "key", [key for key in all_keys() if key.kinds[0] == "bool" and not key.section.endswith("params") and "*" not in key.path], ids=str
)
def test_every_switch_is_seen_where_it_acts(key: Any) -> None:
    """Or it does not act in a config that has nothing else, and then it is not there at all."""
    if key.status not in ("live", "needs_call"):
        return
    config: dict[str, Any] = {**BASE, "zero_optimization": {"stage": key.stages[0] if key.stages else 0}}
    before = effective(config)
    changed = copy.deepcopy(config)
    *parents, last = key.path.split(".")
    node = changed
    for parent in parents:
        node = node.setdefault(parent, {})
    node[last] = not key.default
    after = effective(changed)
    if key.path in before:
        assert Difference(key.path, before[key.path], not key.default) in differences(before, after)
    elif key.default is not None:
        assert key.needs
        assert differences(before, after) == []


@settings(max_examples=200, deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from((None, 1, 8)))
def test_any_config_has_an_effect_that_is_plain_data(source: random.Random, world_size: int | None) -> None:
    config = modern(random_configs.config(source))
    found = effective(config, world_size=world_size)
    assert None not in found.values()
    assert differences(found, effective(copy.deepcopy(config), world_size=world_size)) == []
