"""What a test needs of the machine: where it is missing the test fails in CI, and is skipped with the remedy elsewhere."""

from __future__ import annotations

from collections.abc import Mapping

import pytest


def require(reason: str | None, environ: Mapping[str, str]) -> None:
    """reason: why the test cannot run here, None where it can."""
    if reason is None:
        return
    if environ.get("CI", "").lower() not in ("", "0", "false"):
        pytest.fail(f"missing in CI: {reason}", pytrace=False)
    pytest.skip(reason)
