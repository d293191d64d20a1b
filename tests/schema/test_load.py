"""A composed config becomes typed, and everything that does not fit is named at once, never raised."""

from __future__ import annotations

import dataclasses
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerocfg.diagnostics import in_order, render_report
from zerocfg.schema import FREE, GROUPS, SECTIONS, RunConfig, types
from zerocfg.schema.load import load
from zerocfg.schema.types import DType, NumaBinding, OffloadDevice


def read(section: str, **values: Any) -> Any:
    config, problems = load({section: values})
    assert problems == []
    return getattr(config, section)


def test_nothing_given_is_every_default() -> None:
    assert load({}) == (RunConfig(), [])
    assert load(dict.fromkeys([*GROUPS, *SECTIONS, *FREE])) == (RunConfig(), [])


def test_keys_of_the_app_are_left_alone() -> None:
    assert load({"mine": object(), "lr": 3}) == (RunConfig(), [])


def test_values_as_yaml_and_the_command_line_give_them() -> None:
    assert read("optimizer", lr=2e-5, betas=[0.9, 1]).betas == [0.9, 1.0]
    assert read("parallelism", reduce_bucket_size=5e8).reduce_bucket_size == 500_000_000
    assert type(read("parallelism", reduce_bucket_size=5e8).reduce_bucket_size) is int
    assert type(read("optimizer", lr=1).lr) is float
    assert read("precision", dtype="bf16").dtype is DType.bf16
    assert read("precision", dtype=DType.bf16).dtype is DType.bf16
    assert read("torchrun", numa_binding="core-complex").numa_binding is NumaBinding["core-complex"]
    assert read("offload", param="cpu", nvme_path=None) == dataclasses.replace(RunConfig().offload, param=OffloadDevice.cpu)
    assert load({"deepspeed": {"a": {"b": [1, None]}}, "env": {"X": "y"}})[0].deepspeed == {"a": {"b": [1, None]}}


@pytest.mark.parametrize(
    ("container", "code", "path", "words", "hint"),
    [
        ({"train": {"steps": "???"}}, "ZC101", "train.steps", "is left open (???)", "train.steps=VALUE"),
        ({"model": "???"}, "ZC101", "model", "is left open (???)", "model="),
        ({"deepspeed": {"a": {"b": ["???"]}}}, "ZC101", "deepspeed.a.b[0]", "is left open (???)", "deepspeed.a.b[0]="),
        ({"train": {"steps": 2.5}}, "ZC103", "train.steps", "train.steps=2.5 is not a whole number", "train.steps=2 or 3"),
        ({"optimizer": {"lr": float("nan")}}, "ZC104", "optimizer.lr", "is not a finite number", "number"),
        ({"optimizer": {"lr": float("-inf")}}, "ZC104", "optimizer.lr", "is not a finite number", "number"),
        ({"optimizer": {"lr": "2e-5"}}, "ZC105", "optimizer.lr", "not a number", "number"),
        ({"optimizer": {"lr": True}}, "ZC105", "optimizer.lr", "not a number", "number"),
        ({"optimizer": {"betas": [0.9, "x"]}}, "ZC105", "optimizer.betas[1]", "not a number", "number"),
        ({"optimizer": {"betas": 0.9}}, "ZC105", "optimizer.betas", "not a list", "list"),
        ({"optimizer": {"type": 3}}, "ZC105", "optimizer.type", "not text", "text"),
        ({"optimizer": {"lrr": 3}}, "ZC105", "optimizer.lrr", "is not a key of optimizer", "optimizer.lr"),
        ({"precision": {"tf32": "yes"}}, "ZC105", "precision.tf32", "not true or false", "true or false"),
        ({"precision": {"dtype": "fp8"}}, "ZC105", "precision.dtype", "fp32, fp16, bf16", "one of"),
        ({"train": {"steps": True}}, "ZC105", "train.steps", "not a whole number", "whole number"),
        ({"train": {"steps": None}}, "ZC105", "train.steps", "may not be null", "value"),
        ({"train": 3}, "ZC105", "train", "not a mapping", "mapping"),
        ({"parallelism": "zero2"}, "ZC105", "parallelism", "it chooses no option", "in the defaults list: - override parallelism: zero2"),
        ({"env": [1]}, "ZC105", "env", "not a mapping", "mapping"),
    ],
)
def test_one_problem(container: dict[str, Any], code: str, path: str, words: str, hint: str) -> None:
    config, (found,) = load(container)
    assert (found.code, found.path) == (code, path)
    assert words in found.message
    assert hint in found.hint
    if code != "ZC101" or path.split(".")[0] not in FREE:
        # the field keeps its default, so that later passes can go on
        assert config == RunConfig()


def test_all_problems_at_once() -> None:
    config, problems = load(
        {
            "train": {"steps": "???", "seed": 1.5, "log_every": 5},
            "optimizer": {"lr": "fast", "betaz": []},
            "model": {"hidden_size": float("inf")},
            "batch": {"micro_batch_size": 4},
        }
    )
    assert [(d.code, d.path) for d in in_order(problems)] == [
        ("ZC101", "train.steps"),
        ("ZC103", "model.hidden_size"),
        ("ZC103", "train.seed"),
        ("ZC105", "optimizer.betaz"),
        ("ZC105", "optimizer.lr"),
    ]
    assert render_report(problems).endswith("\n5 errors")
    assert (config.train.log_every, config.batch.micro_batch_size) == (5, 4)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("???"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
keys = st.sampled_from([(section, f.name) for section, cls in {**GROUPS, **SECTIONS}.items() for f in dataclasses.fields(cls)])


@given(keys, anything)
def test_any_value_at_any_key_is_typed_or_reported(key: tuple[str, str], value: Any) -> None:
    section, name = key
    config, problems = load({section: {name: value}})
    got = getattr(getattr(config, section), name)
    default = getattr(getattr(RunConfig(), section), name)
    if problems:
        assert all(d.path.startswith(f"{section}.{name}") and d.hint for d in problems)
        assert got == default
    elif isinstance(value, (bool, str)) and not dataclasses.is_dataclass(got):
        assert got == value or getattr(got, "value", None) == value or getattr(got, "name", None) == value
    elif isinstance(value, (int, float)):
        assert got == value


@pytest.mark.parametrize(
    "enum", [each for each in vars(types).values() if isinstance(each, type) and issubclass(each, Enum) and each is not Enum]
)
def test_an_option_is_written_as_the_pages_and_torchrun_spell_it(enum: type[Enum]) -> None:
    """OmegaConf reads a command line's text as a member's name; pages and commands show its value."""
    assert [member.name for member in enum] == [member.value for member in enum]
