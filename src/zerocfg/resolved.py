"""The return type of a resolve pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from zerocfg.diagnostics import Diagnostic
from zerocfg.provenance import Reason

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Resolved(Generic[T]):
    """One section of the Plan, a reason for each of its fields, and the problems met.

    With a problem the section is a stand-in that lets later passes go on looking; the compiler then emits nothing.
    """

    value: T
    reasons: Mapping[str, Reason]
    """Field of the section -> why."""
    problems: Sequence[Diagnostic] = field(default=())
