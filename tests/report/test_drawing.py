"""Axes and markup."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerocfg.report.charts import Bar, Series, bar_chart, line_chart
from zerocfg.report.html import Markup, escape, tag
from zerocfg.report.scales import domain, plain, seconds, thin, ticks

finite = st.floats(min_value=-1e12, max_value=1e12)


@given(finite, st.floats(min_value=1e-6, max_value=1e12))
def test_ticks_lie_in_the_axis(low: float, width: float) -> None:
    high = low + width
    found = ticks(low, high)
    if high > low:
        slack = 1e-6 * max(abs(low), abs(high), width)
        assert all(low - slack <= tick <= high + slack for tick in found)
        assert len(found) <= 12


def test_ticks_are_round() -> None:
    assert ticks(0, 1) == [0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert ticks(1, 2000, 6) == [500, 1000, 1500, 2000]
    assert ticks(3, 3) == [3]


@given(st.lists(finite, min_size=1, max_size=9), st.booleans())
def test_a_domain_holds_its_values(values: list[float], zero: bool) -> None:
    low, high = domain(values, zero=zero)
    assert low <= min(values) <= max(values) <= high
    assert low < high


@given(st.lists(finite, min_size=1, max_size=3000))
def test_thinning_keeps_ends_and_peaks(values: list[float]) -> None:
    points = list(enumerate(map(float, values)))
    kept = thin(points, 100)
    assert set(kept) <= set(points)
    assert len(kept) <= max(102, 1)
    assert kept[0] == points[0]
    assert kept[-1] == points[-1]
    assert {max(y for _, y in kept), min(y for _, y in kept)} == {max(values), min(values)}


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0"), (12345.6, "12,346"), (3.14159, "3.142"), (0.000123456, "0.000123"), (-0.5, "-0.5"), (1e20, "1.000e+20")],
)
def test_plain(value: float, shown: str) -> None:
    assert plain(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0 s"), (2e-5, "20 µs"), (0.0321, "32.1 ms"), (12.34, "12.3 s"), (125, "2 min 05 s"), (7385, "2 h 03 min"), (119.9, "120 s")],
)
def test_seconds(value: float, shown: str) -> None:
    assert seconds(value) == shown


def test_markup() -> None:
    made = tag("a", "<b>", None, ["x", tag("i", 1)], href='"&', class_="c", data_key="", hidden=True, title=None, open=False)
    assert made == '<a href="&quot;&amp;" class="c" data-key="" hidden>&lt;b&gt;x<i>1</i></a>'
    assert escape("a\x00\x1b[0m\u202eb\n") == "a\ufffd\ufffd[0m\ufffdb\n"
    assert escape(Markup("<i>")) == "<i>"
    assert tag("meta", charset="utf-8") == '<meta charset="utf-8">'


@given(st.text())
def test_no_text_is_markup(text: str) -> None:
    made = tag("p", text, title=text)
    assert made.count("<") == 2
    assert made.count('"') == 2


def test_charts_without_values() -> None:
    assert line_chart("Loss", [Series("loss", [])], y_label="") is None
    assert bar_chart("Memory", [Bar("rank 0", [("", 0.0, 0)])], unit="", form=plain) is None


@given(st.lists(st.tuples(st.integers(0, 10**9), finite), min_size=1, max_size=50, unique_by=lambda p: p[0]), st.booleans(), st.booleans())
def test_every_point_lies_in_the_picture(points: list[tuple[int, float]], zero: bool, settled: bool) -> None:
    import re

    places = [(float(x), y) for x, y in sorted(points)]
    chart = line_chart("Loss", [Series("loss", places)], y_label="", zero=zero, settled=settled)
    assert chart is not None
    path = re.search(r' d="M([^"]*)"', chart)
    assert path is not None
    for pair in path[1].split("L"):
        u, v = map(float, pair.split())
        assert math.isfinite(u)
        assert 61 <= u <= 625
        # what lies beyond a settled axis is cut off, up to one height above
        assert (-240 if settled else 13) <= v <= 241
