"""What the importer knows of the groups and of DeepSpeed is so."""

from __future__ import annotations

from typing import Any

import pytest
from omegaconf import OmegaConf

from zerocfg.confsource import conf_dir
from zerocfg.deepspeed.importer.arguments import HF_DEFAULTS
from zerocfg.deepspeed.importer.autos import BETAS, FROM_ARGUMENT
from zerocfg.deepspeed.importer.autos import SIZES as AUTO_SIZES
from zerocfg.deepspeed.importer.express import SIZES
from zerocfg.deepspeed.importer.learning import OPTIONS, SET_BY_OPTION
from zerocfg.deepspeed.importer.plan_rules import DTYPES
from zerocfg.deepspeed.keys import lookup
from zerocfg.passes.resolve.optimizer import ACCEPTED
from zerocfg.passes.resolve.scheduler import TYPES
from zerocfg.schema.optimizer import SchedulerConfig


def option(group: str, name: str) -> dict[str, Any]:
    content = OmegaConf.to_container(OmegaConf.load(conf_dir() / group / f"{name}.yaml"))
    assert isinstance(content, dict)
    return {str(key): value for key, value in content.items() if key not in ("name", "type")}


@pytest.mark.parametrize("kind", ACCEPTED)
def test_what_each_optimizer_option_sets_besides_the_rate(kind: str) -> None:
    assert set(SET_BY_OPTION[kind]) == set(option("optimizer", kind)) - {"lr"}


@pytest.mark.parametrize("kind", TYPES)
def test_a_scheduler_option_sets_nothing_but_the_fields_own_defaults(kind: str) -> None:
    untouched = SchedulerConfig()
    assert {name: getattr(untouched, name) for name in option("scheduler", OPTIONS[kind])} == option("scheduler", OPTIONS[kind])


@pytest.mark.parametrize("name", SIZES)
def test_sizes_that_a_described_model_would_change(name: str) -> None:
    key = lookup(f"zero_optimization.{name}")
    assert key is not None
    assert (key.stages, key.default) == SIZES[name]


def test_paths_that_an_argument_decides_are_deepspeeds() -> None:
    for path in (*FROM_ARGUMENT, BETAS, *AUTO_SIZES):
        key = lookup(path)
        assert key is not None
        assert key.status == "live", path
    assert set(FROM_ARGUMENT.values()) <= set(HF_DEFAULTS)


def test_spellings_of_types_are_deepspeeds() -> None:
    key = lookup("data_types.grad_accum_dtype")
    assert key is not None
    assert {str(choice).removeprefix("torch.") for choice in key.choices} == {*DTYPES, "int8"}
