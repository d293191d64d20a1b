"""Numbers as people read them."""

from __future__ import annotations


def human_count(n: float) -> str:
    """6738415616 -> 6.74B."""
    for limit, suffix in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(n) >= limit:
            return f"{_three_digits(n / limit)}{suffix}"
    return f"{n:g}"


def human_bytes(n: float) -> str:
    """Binary units: 1073741824 -> 1 GiB."""
    for limit, suffix in ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB")):
        if abs(n) >= limit:
            return f"{_three_digits(n / limit)} {suffix}"
    return f"{n:g} B"


def _three_digits(n: float) -> str:
    """Three significant digits, all of them before the point and none as a power of ten: 1.28, 81.4, 1020."""
    return f"{n:,.0f}" if abs(n) >= 999.5 else f"{n:.3g}"


def counted(n: int, noun: str) -> str:
    """1 job, 2 jobs, 2 micro batches."""
    ending = "" if n == 1 else "es" if noun.endswith(("ch", "ss")) else "s"
    return f"{n} {noun}{ending}"
