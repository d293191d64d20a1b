from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from zerocfg.compiler import resolve
from zerocfg.diagnostics import Diagnostic
from zerocfg.plan import Plan
from zerocfg.provenance import Reason
from zerocfg.schema.load import load

Check = Callable[[Plan, frozenset[str]], Iterator[Diagnostic]]


@pytest.fixture(scope="session")
def resolved(container: Callable[..., dict[str, Any]]) -> Callable[[dict[str, Any]], tuple[Plan, Mapping[str, Reason]]]:
    """The plan, and a reason for each value, of the base config with these changes; resolving must find nothing wrong."""

    def of(changes: dict[str, Any]) -> tuple[Plan, Mapping[str, Reason]]:
        config, unread = load(container(changes))
        plan, reasons, problems = resolve(config, None)
        assert [*unread, *problems] == []
        return plan, reasons

    return of


@pytest.fixture(scope="session")
def checked(resolved: Callable[[dict[str, Any]], tuple[Plan, Mapping[str, Reason]]]) -> Callable[[dict[str, Any], tuple[Check, ...]], str]:
    """What the checks of one module say about the base config with these changes, as text."""

    def report(changes: dict[str, Any], checks: tuple[Check, ...]) -> str:
        plan, reasons = resolved(changes)
        as_written = frozenset(path for path, reason in reasons.items() if reason.config_path and not reason.by)
        return "\n".join(found.render() for check in checks for found in check(plan, as_written))

    return report
