from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from zerocfg.compiler import examine

CASES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    # new keys, and a value of the plan replaced
    ({"steps_per_print": 10}, {"steps_per_print": 10}),
    ({"zero_optimization": {"overlap_comm": False}}, {"zero_optimization.overlap_comm": False}),
    # DeepSpeed's own name of the field and the documented one are the same key
    ({"zero_optimization": {"prefetch_bucket_size": 7}}, {"zero_optimization.stage3_prefetch_bucket_size": 7}),
    # whole numbers, where DeepSpeed counts, and only there
    ({"zero_optimization": {"reduce_bucket_size": 5e6}}, {"zero_optimization.reduce_bucket_size": 5_000_000}),
    (
        {"flops_profiler": {"enabled": True, "recompute_fwd_factor": 2.0}},
        {"flops_profiler": {"enabled": True, "recompute_fwd_factor": 2.0}},
    ),
    # a dot in a name is no path
    (
        {"weight_quantization": {"post_init_quant": {"self_attn.q_proj": {"num_bits": 4}}}},
        {"weight_quantization.post_init_quant": {"self_attn.q_proj": {"num_bits": 4}}},
    ),
]


@pytest.mark.parametrize(("free", "expected"), CASES)
def test_laid_over_last(free: dict[str, Any], expected: dict[str, Any], container: Callable[..., dict[str, Any]]) -> None:
    plain, laid = (examine(container(changes)).run for changes in ({}, {"deepspeed": free}))
    assert plain is not None
    assert laid is not None
    wanted = dict(plain.deepspeed)
    for path, value in expected.items():
        section, _, name = path.rpartition(".")
        if section:
            wanted[section] = {**wanted.get(section, {}), name: value}
        else:
            wanted[name] = value
    assert laid.deepspeed == wanted
    assert all(isinstance(value, int) for value in [laid.deepspeed["zero_optimization"]["reduce_bucket_size"]])


def test_each_laid_over_value_says_so(container: Callable[..., dict[str, Any]]) -> None:
    run = examine(container({"deepspeed": {"zero_optimization": {"prefetch_bucket_size": 7}}})).run
    assert run is not None
    entry = run.provenance["zero_optimization.stage3_prefetch_bucket_size"]
    assert (entry.value, entry.reason) == (7, "deepspeed.zero_optimization.stage3_prefetch_bucket_size")


@pytest.mark.parametrize(
    ("changes", "messages"),
    [
        (
            {"deepspeed": {"zero_optimization": None}},
            ["ZC160 deepspeed.zero_optimization=None cannot be laid over: the rest of the plan follows from it"],
        ),
        (
            {"deepspeed": {"zero_optimization": {"offload_optimizer": {"device": "cpu"}}, "optimizer": {"params": {"lr": 1.0}}}},
            [
                "ZC160 deepspeed.optimizer.params.lr=1.0 cannot be laid over: the rest of the plan follows from it",
                "ZC160 deepspeed.zero_optimization.offload_optimizer.device=cpu cannot be laid over: the rest of the plan follows from it",
            ],
        ),
        # the script's own optimizer may be described
        (
            {
                "optimizer.type": None,
                "deepspeed": {"optimizer": {"type": "SGD", "params": {"lr": 1.0}}, "zero_allow_untested_optimizer": True},
            },
            [],
        ),
        (
            {"deepspeed": {"bfloat16": {"immediate_grad_update": True}, "bf16": {"immediate_grad_update": False}}},
            ["ZC161 deepspeed.bf16.immediate_grad_update: deepspeed.bf16.immediate_grad_update is given twice, in two spellings"],
        ),
    ],
)
def test_what_may_not_be_laid_over(changes: dict[str, Any], messages: list[str], container: Callable[..., dict[str, Any]]) -> None:
    found = examine(container(changes)).diagnostics
    assert [f"{d.code} {d.message}" for d in found if d.code in ("ZC160", "ZC161")] == messages
