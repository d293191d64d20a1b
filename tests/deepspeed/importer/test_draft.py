from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from zerocfg.deepspeed.importer.draft import Draft, join, leaves_of, nested, split

names = st.text('ab. "\n\\ü', max_size=5)


@given(st.lists(names, min_size=1, max_size=4).map(tuple))
def test_a_path_of_any_names_can_be_taken_apart_again(parts: tuple[str, ...]) -> None:
    assert split(join(parts)) == parts


@given(st.recursive(st.integers() | st.lists(st.integers(), max_size=2), lambda inner: st.dictionaries(names, inner, max_size=3)))
def test_leaves_nest_back_to_the_same(tree: Any) -> None:
    config = {"x": tree}
    assert nested({join(parts): value for parts, value in leaves_of(config)}) == config


def test_plain_names_need_no_quotes() -> None:
    assert join(("zero_optimization", "stage")) == "zero_optimization.stage"
    assert join(("a.b", "c")) == '"a.b".c'


def test_leaves_stand_under_the_documented_names() -> None:
    draft = Draft.of({"zero_optimization": {"prefetch_bucket_size": 5}, "bfloat16": {"enabled": True}, "fp16.enabled": True})
    assert draft.leaves == {"zero_optimization.stage3_prefetch_bucket_size": 5, "bf16.enabled": True, '"fp16.enabled"': True}
    assert draft.sources["zero_optimization.stage3_prefetch_bucket_size"] == "zero_optimization.prefetch_bucket_size"


def test_the_second_spelling_of_a_key_keeps_its_own_name() -> None:
    zero = {"prefetch_bucket_size": 5, "stage3_prefetch_bucket_size": 6}
    draft = Draft.of({"zero_optimization": zero, "bf16": {}, "bfloat16": {"enabled": True}})
    assert draft.leaves == {
        "zero_optimization.prefetch_bucket_size": 5,
        "zero_optimization.stage3_prefetch_bucket_size": 6,
        "bf16": {},
        "bfloat16.enabled": True,
    }


def test_a_value_where_another_spelling_is_a_section() -> None:
    draft = Draft.of({"tensor_parallel": {"tensor_parallel": {"tp_size": 2}, "tp": 3}})
    assert draft.leaves == {"tensor_parallel.tensor_parallel.tp_size": 2, "tensor_parallel.tp": 3}
