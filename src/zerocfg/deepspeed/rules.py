"""The registry of checks. A rule is a function that looks at a `View` and yields what it found; its code and one line for
the documentation stand in its decorator.

    @rule("ZC699", "one line for docs/reference/diagnostics.md")
    def name(view: View) -> Iterator[Finding]: ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from zerocfg.deepspeed.view import View, shown
from zerocfg.diagnostics import Diagnostic, Severity


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem, without code and prefix."""

    path: str
    """Dotted path, canonical or as written, or of the missing key."""
    text: str
    """What is wrong, to follow "path=value "."""
    detail: tuple[str, ...] = ()
    hint: str = ""
    severity: Severity = Severity.ERROR
    value: object = ...
    """Value to show; left out, the value written at `path`, unless it is a section."""


Check = Callable[[View], Iterable[Finding]]


@dataclass(frozen=True, slots=True)
class Rule:
    code: str
    summary: str
    check: Check

    def run(self, view: View) -> list[Diagnostic]:
        return [self._said(view, finding) for finding in self.check(view)]

    def _said(self, view: View, finding: Finding) -> Diagnostic:
        item = view.item(finding.path)
        written = finding.path if item is None else item.written
        path = view.full(written)
        value = finding.value
        if value is ...:
            value = _written(view, written)
        subject = path if value is ... or isinstance(value, dict) else f"{path}={shown(value)}"
        return Diagnostic(
            code=self.code,
            message=f"{subject} {finding.text}",
            path=path,
            severity=finding.severity,
            detail=finding.detail,
            # without the key DeepSpeed's default holds
            hint=finding.hint or f"remove {path}",
        )


RULES: list[Rule] = []


def rule(code: str, summary: str) -> Callable[[Check], Check]:
    """Register a check under `code`; each code once."""
    if any(known.code == code for known in RULES):
        raise ValueError(f"{code} is taken")

    def register(check: Check) -> Check:
        RULES.append(Rule(code, summary, check))
        return check

    return register


def _written(view: View, path: str) -> object:
    value: object = view.config
    for part in path.split("."):
        if isinstance(value, list | tuple) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        elif isinstance(value, Mapping) and part in value:
            value = value[part]
        else:
            return ...
    return dict(value) if isinstance(value, Mapping) else value
