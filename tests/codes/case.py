"""One case of tests/test_codes.py."""

from __future__ import annotations

from typing import Any, NamedTuple


class Case(NamedTuple):
    """What makes a code appear, at which path, and what makes the same config clean."""

    code: str
    path: str
    bad: dict[str, Any]
    good: dict[str, Any]
    environ: dict[str, str] = {}  # noqa: RUF012 - never changed


def c(code: str, path: str, bad: dict[str, Any], good: dict[str, Any], **environ: str) -> Case:
    return Case(code, path, bad, good, environ)
