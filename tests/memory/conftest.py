from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.composing import container_of
from zerocfg.compiler import resolve
from zerocfg.diagnostics import has_errors, render_report
from zerocfg.plan import Plan
from zerocfg.schema.load import load

PlanOf = Callable[..., Plan]


@pytest.fixture(scope="session")
def plan_of() -> PlanOf:
    """The plan of these overrides, resolved and not checked: it need not fit."""

    def make(*overrides: str) -> Plan:
        config, unread = load(container_of(*overrides))
        plan, _, problems = resolve(config, None)
        found = [*unread, *problems]
        assert not has_errors(found), render_report(found)
        return plan

    return make
