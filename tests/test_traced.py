"""A profile as a file: written, read, refused."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.models import GPT2
from zerocfg.memory import closed_form, parameters_of
from zerocfg.traced import ActivationTrace, ModelParameters, NotAProfile, Parameter, as_profile, read_profile

GPT = replace(
    GPT2,
    num_hidden_layers=2,
    hidden_size=64,
    num_attention_heads=4,
    num_key_value_heads=4,
    head_dim=16,
    intermediate_size=256,
    vocab_size=1000,
    sequence_length=32,
)


@pytest.fixture
def trace() -> ActivationTrace:
    return replace(closed_form(GPT, "bf16"), source="traced", parameters=parameters_of(GPT), block_classes=("Block",))


def test_what_is_written_is_read(trace: ActivationTrace) -> None:
    assert read_profile(json.loads(json.dumps(as_profile(trace)))) == trace


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (None, "it has no key zerocfg_profile"),
        ({"zerocfg_profile": 2}, "it is of version 2, this zerocfg reads 1"),
        ({"dtype": "int8"}, "its dtype is 'int8', not fp32 or fp16 or bf16"),
        ({"tokens": -1}, "tokens is not a count"),
        ({"tokens": 0}, "tokens or parameter_list is not a count"),
        ({"block_saved": 1.5}, "block_saved is not a count"),
        ({"parameter_list": []}, "tokens or parameter_list is not a count"),
        ({"parameter_list": [{"name": "w"}]}, "missing 1 required positional argument: 'numel'"),
        ({"parameter_list": [{"name": "w", "numel": "many"}]}, "numel='many' is not of type int"),
        ({"parameter_list": 3}, "not iterable"),
        ({"blocks": {"flops": 1}}, "unexpected keyword argument 'flops'"),
        ({"blocks": 1}, "Operations is int, not an object"),
    ],
)
def test_what_is_no_profile_is_refused(trace: ActivationTrace, change: dict[str, Any] | None, said: str) -> None:
    found = {**as_profile(trace), **change} if change is not None else {"tokens": 1}
    with pytest.raises(NotAProfile) as refused:
        read_profile(found)
    assert said in str(refused.value)


def test_a_key_that_is_missing_is_named(trace: ActivationTrace) -> None:
    found = as_profile(trace)
    del found["block_saved"]
    with pytest.raises(NotAProfile, match="it has no block_saved"):
        read_profile(found)


def test_a_rank_of_several_holds_a_part(trace: ActivationTrace) -> None:
    half = trace.of_part(2)
    assert (half.tokens, half.block_saved, half.loss_backward) == (16, trace.block_saved // 2, trace.loss_backward // 2)
    assert half.blocks.matmul_flops == trace.blocks.matmul_flops / 2
    assert half.blocks.launches == trace.blocks.launches
    cut = trace.with_blocks_cut(0.75, 0.5)
    assert (cut.tokens, cut.block_saved, cut.loss_backward) == (32, int(0.75 * trace.block_saved), trace.loss_backward)
    assert (cut.blocks.matmul_flops, cut.outside) == (trace.blocks.matmul_flops / 2, trace.outside)


def test_counts_of_parameters() -> None:
    made = ModelParameters(
        (
            Parameter("embed.weight", 100, module="embed", head=True),
            Parameter("blocks.0.a.weight", 40, block=0, module="blocks.0.a", trainable=False),
            Parameter("blocks.0.a.bias", 4, False, block=0, module="blocks.0.a"),
            Parameter("blocks.1.a.weight", 50, block=1, module="blocks.1.a"),
        ),
        2,
    )
    assert (made.num_trainable, made.num_frozen, made.largest, made.largest_in_block) == (154, 40, 100, 50)
    assert (made.largest_module, made.block_numel, made.trainable_in_block, made.head_numel) == (100, 50, 50, 100)
    assert made.is_tied
