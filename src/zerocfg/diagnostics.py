"""Problems found in a run: collected, sorted, shown once.

A `Diagnostic` never stops the pass that found it: passes yield all that they find, and the caller decides. Each code has
one line in docs/reference/diagnostics.md and one failing test.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from zerocfg.errors import ZerocfgError


class Severity(IntEnum):
    """Order of a report: the lower comes first."""

    ERROR = 0
    WARNING = 1
    NOTE = 2

    @property
    def label(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagnostic:
    """One problem: what is wrong, where, who decided it, and what to write instead."""

    code: str
    """Stable code, ZC1xx resolve, ZC2xx batch and topology, ZC3xx ZeRO and offload, ZC4xx precision, ZC5xx memory, ZC6xx
    DeepSpeed keys, ZC7xx launch and SLURM, ZC8xx environment, ZC9xx import."""
    message: str
    """One line: path, value, what is wrong."""
    path: str = ""
    """Dotted path in the config (batch.global_batch_size) or in the DeepSpeed JSON (deepspeed.zero_optimization.stage)."""
    severity: Severity = Severity.ERROR
    detail: tuple[str, ...] = ()
    """Further lines: the arithmetic, the rule, its source."""
    hint: str = ""
    """What to write instead, ready to paste where possible."""
    decided_by: str = ""
    """Filled in by the compiler from the provenance of `path`."""

    def as_dict(self) -> dict[str, str]:
        """The shape of `zerocfg check --json`: code, severity, path, message, hint (all text)."""
        return {
            "code": self.code,
            "severity": self.severity.label,
            "path": self.path,
            "message": " ".join((self.message, *(line.strip() for line in self.detail))),
            "hint": self.hint,
        }

    def render(self) -> str:
        lines = [f"{self.severity.label}[{self.code}] {self.message}"]
        lines += [f"  {line}" for line in self.detail]
        if self.decided_by:
            lines.append(f"  decided by: {self.decided_by}")
        if self.hint:
            lines.append(f"  try: {self.hint}")
        return "\n".join(lines)


def in_order(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Errors before warnings, then by code and path; exact repetitions dropped."""
    unique = dict.fromkeys(diagnostics)
    return sorted(unique, key=lambda d: (d.severity, d.code, d.path, d.message))


def has_errors(diagnostics: Iterable[Diagnostic]) -> bool:
    return any(d.severity is Severity.ERROR for d in diagnostics)


def render_report(diagnostics: Iterable[Diagnostic]) -> str:
    """All problems as text, with a closing line that counts them. Empty text for no problem."""
    ordered = in_order(diagnostics)
    if not ordered:
        return ""
    counts = [
        f"{n} {name}{'s' if n > 1 else ''}"
        for severity, name in ((Severity.ERROR, "error"), (Severity.WARNING, "warning"), (Severity.NOTE, "note"))
        if (n := sum(d.severity is severity for d in ordered))
    ]
    return "\n".join([*(d.render() for d in ordered), "", ", ".join(counts)])


class ConfigProblems(ZerocfgError):
    """A run that cannot be compiled. Carries every problem found; str() is the whole report."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = in_order(diagnostics)
        super().__init__(render_report(self.diagnostics))

    def __reduce__(self) -> tuple[type[ConfigProblems], tuple[list[Diagnostic]]]:
        return type(self), (self.diagnostics,)
