from __future__ import annotations

from collections.abc import Callable

import pytest

from zerocfg.compiler import examine
from zerocfg.compose import compose
from zerocfg.confsource import conf_dir
from zerocfg.diagnostics import render_report
from zerocfg.plan import Plan

PlanOf = Callable[..., Plan]


@pytest.fixture(scope="session")
def plan_of() -> PlanOf:
    """The plan of these overrides; nothing that compiling finds may be an error."""

    def make(*overrides: str) -> Plan:
        composed = compose(list(overrides), config_path=str(conf_dir()), config_name="zerocfg")
        outcome = examine(composed.container)
        assert outcome.run is not None, render_report([*composed.diagnostics, *outcome.diagnostics])
        return outcome.run.plan

    return make
