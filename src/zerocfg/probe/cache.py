"""The folder where measurements of machines lie, and what is said of a file there that cannot be used."""

from __future__ import annotations

import os
import re
from pathlib import Path

from zerocfg.diagnostics import Diagnostic, Severity

CODES: dict[str, str] = {
    "ZC513": "A calibration file, or a curve of collectives, cannot be used; the data sheet is.",
}


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "zerocfg"


def stem(gpu: str) -> str:
    """The part of a file's name that says which GPU: letters and digits."""
    return re.sub(r"[^a-z0-9]+", "-", gpu.lower()).strip("-") or "cpu"


def is_rate(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < float("inf")


def refused(file: Path, why: str, hint: str) -> Diagnostic:
    detail = ("the data sheet is used instead",)
    return Diagnostic(code="ZC513", severity=Severity.WARNING, message=f"{file} {why}", detail=detail, hint=hint)
