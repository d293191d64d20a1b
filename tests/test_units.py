from __future__ import annotations

import pytest

from zerocfg.units import counted, human_bytes, human_count


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (1020 * 2**20, "1,020 MiB"),
        (2**30, "1 GiB"),
        (999.6 * 2**20, "1,000 MiB"),
        (5e26, "454,747,350,886,464 TiB"),
    ],
)
def test_bytes_without_powers_of_ten(size: float, text: str) -> None:
    assert human_bytes(size) == text


@pytest.mark.parametrize(("count", "text"), [(999, "999"), (6738415616, "6.74B"), (999_900_000, "1,000M"), (1e18, "1,000,000T")])
def test_counts(count: float, text: str) -> None:
    assert human_count(count) == text


def test_one_thing_and_several() -> None:
    assert [counted(n, "job") for n in (0, 1, 2)] == ["0 jobs", "1 job", "2 jobs"]
    assert counted(2, "micro batch") == "2 micro batches"
