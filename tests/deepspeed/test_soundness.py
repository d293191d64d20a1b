"""Whatever mixture of keys and values is written: no error from us means that DeepSpeed parses it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from zerocfg.deepspeed import keys
from zerocfg.deepspeed.check import check_deepspeed
from zerocfg.diagnostics import has_errors, render_report

ODD: list[Any] = [
    *(True, False, 0, 1, 2, 3, -1, 8, 1.0, 0.5, 1.5, 5e8, float("nan"), "1", "true", "auto", "cpu", "nvme", "bf16", "AdamW", "x", ""),
    *(None, [], ["a"], {}, {"a": 1}, {"enabled": True}, {"type": "AdamW"}, {"device": "cpu"}),
]


@st.composite
def values(draw: st.DrawFn, key: keys.Key) -> Any:
    pools: list[list[Any]] = [ODD, [key.default]]
    if key.choices:
        pools.append(list(key.choices))
    pools.append({"bool": [True, False], "int": [0, 1, 2, 8], "float": [0.0, 0.5, 1.0], "str": ["abc"]}.get(key.kinds[0], [{}]))
    return copy.deepcopy(draw(st.sampled_from(draw(st.sampled_from(pools)))))


@st.composite
def configs(draw: st.DrawFn) -> dict[str, Any]:
    config: dict[str, Any] = {"train_micro_batch_size_per_gpu": 1, "gradient_clipping": 1.0}
    if draw(st.booleans()):
        config["zero_optimization"] = {"stage": draw(st.integers(min_value=0, max_value=3))}
    for key in draw(st.lists(st.sampled_from(keys.all_keys()), min_size=1, max_size=4)):
        spelled = draw(st.sampled_from((key.path, *key.aliases)))
        *parents, last = (part.replace("*", "m") for part in spelled.split("."))
        place: Any = config
        for name in parents:
            place = place.setdefault(name, {}) if isinstance(place, dict) else None
        if isinstance(place, dict):
            place[last] = draw(values(key))
    return config


@settings(max_examples=1000, deadline=None)
@given(config=configs(), world_size=st.sampled_from((1, 2, 4)))
def test_no_error_means_deepspeed_parses_it(parse: Callable[..., str | None], config: dict[str, Any], world_size: int) -> None:
    if not has_errors(check_deepspeed(config, world_size=world_size, accelerator="cpu")):
        assert parse(config, world_size) is None


def test_every_key_alone_with_every_odd_value(parse: Callable[..., str | None]) -> None:
    for key in keys.all_keys():
        for spelled in (key.path, *key.aliases):
            for value in [*ODD, float("inf"), key.default, *key.choices]:
                config: dict[str, Any] = {"train_micro_batch_size_per_gpu": 1, "gradient_clipping": 1.0}
                config |= {"optimizer": {"type": "AdamW"}} if spelled.startswith("optimizer.") else {}
                config |= {"scheduler": {"type": "WarmupLR", "params": {}}} if spelled.startswith("scheduler.") else {}
                *parents, last = (part.replace("*", "m") for part in spelled.split("."))
                place: Any = config
                for name in parents:
                    place = place.setdefault(name, {})
                place[last] = copy.deepcopy(value)
                if not has_errors(check_deepspeed(config, world_size=2, accelerator="cpu")):
                    assert parse(config, 2) is None, config


ABSURD: list[Any] = [10**400, 10**5000, 1e308, 1e-320, "9" * 5000, "\ud800", b"x", (1, 2), {1: 2}, {None: {}}, [[[]]], 1j, {1, 2}, object()]


def test_absurd_values_get_a_report() -> None:
    for key in keys.all_keys():
        *parents, last = (part.replace("*", "m") for part in key.path.split("."))
        for value in ABSURD:
            config: dict[str, Any] = {"train_batch_size": 8, "optimizer": {"type": "AdamW"}, "zero_optimization": {"stage": 3}}
            config |= {"scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 10}}}
            place: Any = config
            for name in parents:
                place = place.setdefault(name, {})
            place[last] = value
            assert render_report(check_deepspeed(config, world_size=8, trainable_params=1000))


@settings(max_examples=60, deadline=None)
@given(
    config=st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(), lambda inner: st.dictionaries(st.text(), inner) | st.lists(inner)
    )
)
def test_any_dict_gets_a_report(config: Any) -> None:
    check_deepspeed({"x": config, "zero_optimization": config, "optimizer": {"type": "AdamW", "params": config}}, world_size=3)
