"""The folder where measurements of machines lie, and what is said of a file there that cannot be used."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, TypeGuard

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


def are_pairs(value: object) -> TypeGuard[list[list[float]]]:
    """[[size, time], ...], or none."""
    return isinstance(value, list) and all(isinstance(pair, list) and len(pair) == 2 and all(map(is_rate, pair)) for pair in value)


def read_object(file: Path) -> dict[str, Any] | str:
    """The JSON object that the file holds, or why there is none."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except OSError as problem:
        return f"cannot be read: {problem.strerror or problem}"
    except ValueError as problem:
        return f"is not JSON: {problem}"
    return found if isinstance(found, dict) else f"holds {type(found).__name__}, not an object"


def refused(file: Path, why: str, hint: str) -> Diagnostic:
    detail = ("the data sheet is used instead",)
    return Diagnostic(code="ZC513", severity=Severity.WARNING, message=f"{file} {why}", detail=detail, hint=hint)
