"""What a check found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum


class Status(IntEnum):
    OK = 0
    WARN = 1
    FAIL = 2

    @property
    def label(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One line of the report."""

    check: str = ""
    """The check's name; `diagnose` fills it in."""
    status: Status
    text: str
    """What is so."""
    fix: str = ""
    """What to do, one line; empty where all is well."""
    code: str = ""
    """ZC8xx; empty where all is well."""

    def as_dict(self) -> dict[str, str]:
        """The shape of a line of `zerocfg doctor --json`."""
        return {"check": self.check, "status": self.status.label, "code": self.code, "text": self.text, "fix": self.fix}


def ok(text: str) -> Finding:
    return Finding(status=Status.OK, text=text)


def warn(code: str, text: str, fix: str) -> Finding:
    return Finding(status=Status.WARN, text=text, fix=fix, code=code)


def fail(code: str, text: str, fix: str) -> Finding:
    return Finding(status=Status.FAIL, text=text, fix=fix, code=code)


def bad(needed: bool, code: str, text: str, fix: str) -> Finding:
    """A failure where the run needs it, else a warning."""
    return (fail if needed else warn)(code, text, fix)


def worst(findings: Iterable[Finding]) -> Status:
    return max((finding.status for finding in findings), default=Status.OK)
