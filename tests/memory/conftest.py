from __future__ import annotations

from collections.abc import Callable

import pytest

from zerocfg.compiler import resolve
from zerocfg.compose import compose
from zerocfg.confsource import conf_dir
from zerocfg.diagnostics import has_errors, render_report
from zerocfg.plan import Plan
from zerocfg.schema.load import load

PlanOf = Callable[..., Plan]


@pytest.fixture(scope="session")
def plan_of() -> PlanOf:
    """The plan of these overrides, resolved and not checked: it need not fit."""

    def make(*overrides: str) -> Plan:
        composed = compose(list(overrides), config_path=str(conf_dir()), config_name="zerocfg")
        config, unread = load(composed.container)
        plan, _, problems = resolve(config, None)
        found = [*composed.diagnostics, *unread, *problems]
        assert not has_errors(found), render_report(found)
        return plan

    return make
