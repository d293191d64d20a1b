from __future__ import annotations

from typing import Any

import pytest

from zerocfg.lowered import Leaf, flatten, nest, overlay
from zerocfg.provenance import asked


@pytest.mark.parametrize(
    ("flat", "nested"),
    [
        ([], {}),
        ([("a", 1), ("b.c", 2), ("b.d.e", [3])], {"a": 1, "b": {"c": 2, "d": {"e": [3]}}}),
        ([("b.c", {}), ("a", None)], {"b": {"c": {}}, "a": None}),
    ],
)
def test_nest_and_flatten_are_inverse(flat: list[tuple[str, Any]], nested: dict[str, Any]) -> None:
    made = nest(Leaf(path, value, asked("")) for path, value in flat)
    assert made == nested
    assert list(made) == list(nested)
    assert flatten(nested) == flat


@pytest.mark.parametrize(
    ("base", "top", "expected"),
    [
        ({"a": {"b": 1, "c": 2}}, {"a": {"c": 3, "d": 4}}, {"a": {"b": 1, "c": 3, "d": 4}}),
        ({"a": {"b": 1}}, {"a": 5}, {"a": 5}),
        ({"a": 5}, {"a": {"b": 1}}, {"a": {"b": 1}}),
        ({"a": {"b": 1}}, {"a": {}}, {"a": {"b": 1}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": 1}, {"a": None, "b": 2}, {"a": None, "b": 2}),
    ],
)
def test_overlay(base: dict[str, Any], top: dict[str, Any], expected: dict[str, Any]) -> None:
    before = repr((base, top))
    assert overlay(base, top) == expected
    assert repr((base, top)) == before
