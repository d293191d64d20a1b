"""Bandwidths as nccl-tests define them: held against published rows of nccl-tests, which print both."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerocfg.bench.collectives import DEFAULT_SIZES, ELEMENT, OPS, alg_gbps, bus_gbps, parse_sizes, rounded, size_text
from zerocfg.planner.rates import bus_factor


@pytest.mark.parametrize(
    ("size", "microseconds", "algbw", "busbw"),
    # all_reduce_perf on 8 x H100 and 8 x A100: bytes, us, algbw, busbw
    [
        (1073741824, 4029.4, 266.48, 466.33),
        (8388608, 83.04, 101.01, 176.77),
        (17179869184, 127997, 134.22, 234.89),
        (32768, 43.83, 0.75, 1.31),
    ],
)
def test_published_rows(size: int, microseconds: float, algbw: float, busbw: float) -> None:
    seconds = microseconds * 1e-6
    assert alg_gbps(size, seconds) == pytest.approx(algbw, rel=5e-3)
    assert bus_gbps("all_reduce", size, seconds, 8) == pytest.approx(busbw, rel=5e-3)


def test_factors() -> None:
    assert [bus_factor(op, 2) for op in OPS] == [1.0, 0.5, 0.5, 0.5, 1.0]
    assert [bus_factor(op, 8) for op in OPS] == [1.75, 0.875, 0.875, 0.875, 1.0]


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("256M,1G", (2**28, 2**30)),
        ("1K:1M:4", tuple(2**10 * 4**i for i in range(6))),
        ("8:64", (8, 16, 32, 64)),
        ("1G, 4k ,4096", (4096, 2**30)),
        ("4KiB,1MB", (4096, 2**20)),
        ("8:20:4", (8,)),
    ],
)
def test_sizes(text: str, sizes: tuple[int, ...]) -> None:
    assert parse_sizes(text) == sizes


@pytest.mark.parametrize("text", ["", "x", "0", "-1", "1.5M", "1M:1K", "1:2:3:4", "1:8:1", "1:8:x", "1K,,2K", "1T", "9" * 30, "128G"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="is not"):
        parse_sizes(text)


@given(st.integers(1, 2**34), st.integers(2, 64))
def test_each_rank_has_a_whole_part(size: int, world: int) -> None:
    found = rounded(size, world)
    assert found % (ELEMENT * world) == 0
    assert size <= found < size + ELEMENT * world


def test_text() -> None:
    assert [size_text(size) for size in (8, 1000, 1024, 2**20, 3 * 2**30)] == ["8 B", "1000 B", "1 KiB", "1 MiB", "3 GiB"]
    assert all(parse_sizes(text) for text in DEFAULT_SIZES.values())
