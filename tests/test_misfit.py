"""What is said of data that is not of the type that it was written by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict

import pytest

from zerocfg.misfit import misfit


@dataclass
class Inner:
    count: int
    share: float
    names: tuple[str, ...]
    sizes: dict[str, int]


class Outer(TypedDict, total=False):
    inner: Inner | None
    on: bool
    rest: dict[str, Any]


INNER = {"count": 1, "share": 2, "names": ["a"], "sizes": {"b": 3}}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"inner": INNER, "on": True, "rest": {"x": [None]}, "of a later release": 1}, ""),
        ({"inner": None}, ""),
        ({}, ""),
        ([], "it is no mapping"),
        ({"inner": "x"}, "inner is no mapping"),
        ({"on": 1}, "on is no truth value"),
        ({"rest": None}, "rest is no mapping"),
        ({"inner": {**INNER, "count": True}}, "inner.count is no whole number"),
        ({"inner": {**INNER, "count": 1.5}}, "inner.count is no whole number"),
        ({"inner": {**INNER, "share": "1"}}, "inner.share is no number"),
        ({"inner": {**INNER, "names": "a"}}, "inner.names is no list"),
        ({"inner": {**INNER, "names": ["a", 1]}}, "inner.names[1] is no text"),
        ({"inner": {**INNER, "sizes": {"b": None}}}, "inner.sizes.b is no whole number"),
    ],
)
def test_words(value: Any, words: str) -> None:
    assert misfit(Outer, value) == words


def test_what_is_missing() -> None:
    assert misfit(Inner, {"count": 1}) == ""
    assert misfit(Inner, {"count": 1}, whole=True) == "it has no share"
    assert misfit(Outer, {"inner": {}, "on": True, "rest": {}}, whole=True) == "it has no inner.count"
