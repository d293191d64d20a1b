from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.models import GPT2, LLAMA3_8B
from zerocfg.facts import ModelFacts
from zerocfg.memory.parameters import largest_sub_group, owned_elements, padded_partition, parameters_of, sharded
from zerocfg.traced import OUTSIDE

LLAMA = replace(LLAMA3_8B, num_hidden_layers=2)
SIZES = st.lists(st.integers(1, 1000), min_size=1, max_size=30)


@pytest.mark.parametrize("model", [GPT2, LLAMA])
def test_the_list_adds_up_to_the_model(model: ModelFacts) -> None:
    found = parameters_of(model)
    assert found.num_trainable == model.num_parameters
    assert found.block_numel == model.block_parameters
    assert (
        sum(p.numel for p in found.entries if p.block == OUTSIDE) == model.num_parameters - model.num_hidden_layers * model.block_parameters
    )


def test_published_counts() -> None:
    assert parameters_of(GPT2).num_trainable == 124_439_808
    assert (parameters_of(GPT2).is_tied, parameters_of(LLAMA).is_tied) == (True, False)
    assert parameters_of(LLAMA).head_numel == parameters_of(LLAMA).largest == 128256 * 4096


def test_tensor_parallel_ranks_share_the_blocks_matrices_only() -> None:
    whole, half = parameters_of(LLAMA), parameters_of(LLAMA, 2)
    matrices = sum(p.numel for p in whole.entries if p.block != OUTSIDE and p.is_matrix)
    assert whole.num_trainable - half.num_trainable == matrices // 2


def test_muon_takes_matrices_but_not_embeddings() -> None:
    kinds = {p.name: p.uses_muon for p in parameters_of(LLAMA).entries if p.block in (OUTSIDE, 0)}
    assert [name for name, muon in kinds.items() if not muon] == [
        "embed.weight",
        "blocks.0.norm1.weight",
        "blocks.0.norm2.weight",
        "norm.weight",
    ]


def test_partitions_are_padded_to_twice_the_ranks() -> None:
    assert padded_partition(100, 8) == 14  # 112 / 8
    assert padded_partition(96, 8) == 12
    assert sharded([10, 7], 4) == 3 + 2


def test_owned_parameters_are_whole() -> None:
    # 12 elements on 2 ranks: 6 each, and the second parameter lies on the border
    assert owned_elements([4, 4, 4], 2) == (8, 8)
    assert owned_elements([6, 6], 2) == (6, 6)
    assert owned_elements([12], 2) == (12, 12)


@given(SIZES, st.integers(1, 9))
def test_owned_parameters_cover_the_model(sizes: list[int], ranks: int) -> None:
    owned = owned_elements(sizes, ranks)
    part = padded_partition(sum(sizes), ranks)
    assert len(owned) == ranks
    # each rank has its part, apart from padding, and no parameter is on more ranks than it has parts
    assert sum(owned) >= sum(sizes)
    assert all(have <= part + 2 * max(sizes) for have in owned)


@given(SIZES, st.integers(1, 9), st.integers(1, 2000))
def test_sub_groups_hold_at_least_their_size(sizes: list[int], ranks: int, limit: int) -> None:
    largest, count = largest_sub_group(sizes, ranks, limit)
    total = sharded(sizes, ranks)
    assert largest * count >= total >= largest
    if count > 1:
        assert limit <= largest < limit + max(-(-n // ranks) for n in sizes)
    else:
        assert largest == total
