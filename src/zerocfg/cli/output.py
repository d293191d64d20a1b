"""Printing: products to stdout, reports to stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from typing import Any, TextIO

from zerocfg.diagnostics import Diagnostic, in_order, render_report

_COLOURS = {"error[": "\033[1;31m", "warning[": "\033[1;33m", "note[": "\033[1;36m"}


def product(text: str) -> None:
    print(text)


def product_json(value: Any) -> None:
    """JSON has no NaN and no infinity: null."""
    print(json.dumps(json.loads(json.dumps(value), parse_constant=lambda name: None), indent=2, allow_nan=False))


def report(diagnostics: Iterable[Diagnostic]) -> None:
    """All problems on stderr; nothing for none."""
    text = render_report(diagnostics)
    if text:
        print(_coloured(text) if _terminal() else text, file=sys.stderr)


def report_json(diagnostics: Iterable[Diagnostic]) -> None:
    """All problems on stdout: a list of {code, severity, path, message, hint}."""
    product_json([d.as_dict() for d in in_order(diagnostics)])


def say(text: str) -> None:
    print(text, file=sys.stderr)


def colours() -> bool:
    """Whether products may be coloured."""
    return _terminal(sys.stdout)


def _terminal(stream: TextIO | None = None) -> bool:
    return (stream or sys.stderr).isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _coloured(text: str) -> str:
    lines = []
    for line in text.split("\n"):
        colour = next((c for start, c in _COLOURS.items() if line.startswith(start)), "")
        head, bracket, rest = line.partition("] ")
        lines.append(f"{colour}{head}{bracket.strip()}\033[0m {rest}" if colour else line)
    return "\n".join(lines)
