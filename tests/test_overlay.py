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
    assert (entry.value, entry.reason) == (7, "deepspeed.zero_optimization.prefetch_bucket_size")


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


@pytest.mark.parametrize(
    ("changes", "code", "path", "message", "hint"),
    [
        # what a group decides is set in the group
        (
            {"parallelism.stage": 0, "deepspeed": {"zero_optimization": {"offload_optimizer": {"super_offload": True}}}},
            "ZC638",
            "deepspeed.zero_optimization.offload_optimizer.super_offload",
            "deepspeed.zero_optimization.offload_optimizer.super_offload=true is ignored in silence at ZeRO stage 0",
            'parallelism.stage=3 and offload.optimizer="cpu", or deepspeed.zero_optimization.offload_optimizer.super_offload=false',
        ),
        # a new key of deepspeed needs a +, one that is there does not; a flag of the JSON is a word of its group
        (
            {"deepspeed": {"torch_autocast": {"enabled": True}}},
            "ZC668",
            "deepspeed.torch_autocast.dtype",
            "deepspeed.torch_autocast.dtype is missing: DeepSpeed goes on with none",
            '+deepspeed.torch_autocast.dtype="bfloat16"',
        ),
        (
            {"deepspeed": {"torch_autocast": {"enabled": True, "dtype": "bfloat16"}}},
            "ZC669",
            "deepspeed.torch_autocast.enabled",
            "deepspeed.torch_autocast.enabled=true adds little to bf16, which is on too",
            "deepspeed.torch_autocast.enabled=false, or precision.dtype=fp32",
        ),
        # a flag that is wrong itself
        (
            {"precision.dtype": "fp16", "hardware.compute_capability": "6.1"},
            "ZC670",
            "precision.dtype",
            "precision.dtype=fp16 is refused at compute capability 6.1: 7.0 is the least",
            "precision.dtype=fp32",
        ),
        # in the user's spelling
        (
            {"precision.dtype": "fp32", "deepspeed": {"bfloat16": {"immediate_grad_update": True}}},
            "ZC631",
            "deepspeed.bfloat16.immediate_grad_update",
            "deepspeed.bfloat16.immediate_grad_update=true has no effect",
            "remove deepspeed.bfloat16.immediate_grad_update, or set precision.dtype=bf16",
        ),
    ],
)
def test_a_problem_of_the_json_is_told_in_words_to_paste(
    changes: dict[str, Any], code: str, path: str, message: str, hint: str, container: Callable[..., dict[str, Any]]
) -> None:
    found = [d for d in examine(container(changes)).diagnostics if d.code == code]
    assert [(d.path, d.message, d.hint) for d in found] == [(path, message, hint)]


def test_memory_is_told_beside_problems_that_do_not_change_it(container: Callable[..., dict[str, Any]]) -> None:
    """All at once: mending a schedule does not bring up that the plan does not fit."""

    def codes(changes: dict[str, Any]) -> set[str]:
        return {d.code for d in examine(container({"hardware.memory_bytes": 2**20, **changes})).diagnostics}

    assert codes({"scheduler.cycle_min_lr": 0.1}) == {"ZC154", "ZC501"}
    assert codes({"parallelism.stage": 2, "parallelism.sub_group_size": 1000}) == {"ZC306", "ZC501"}
    # what takes memory is not settled yet
    assert codes({"parallelism.stage": 2, "offload.param": "cpu"}) == {"ZC302"}


def test_a_change_that_another_check_refuses_is_not_suggested(container: Callable[..., dict[str, Any]]) -> None:
    """Lamb cannot be offloaded."""

    def hint(optimizer: str) -> str:
        changes = {"hardware.memory_bytes": 4 * 2**30, "model.num_hidden_layers": 300, "optimizer.type": optimizer}
        (found,) = (d for d in examine(container(changes)).diagnostics if d.code == "ZC501")
        return found.hint

    assert "offload=" in hint("AdamW")
    assert "offload=" not in hint("Lamb")
