from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from tests.composing import container_of
from zerocfg.compiler import resolve
from zerocfg.plan import Plan
from zerocfg.schema import RunConfig
from zerocfg.schema.load import load

Configure = Callable[..., RunConfig]
MakePlan = Callable[..., Plan]


@cache
def _config(overrides: tuple[str, ...]) -> RunConfig:
    config, problems = load(container_of(*overrides))
    assert problems == []
    return config


@pytest.fixture(scope="session")
def configure() -> Configure:
    """configure("model=gpt_1b3", ...) -> the typed config of these overrides."""
    return lambda *overrides: _config(overrides)


@pytest.fixture(scope="session")
def make_plan() -> MakePlan:
    def make(*overrides: str) -> Plan:
        plan, _, problems = resolve(_config(overrides), None)
        assert problems == []
        return plan

    return make
