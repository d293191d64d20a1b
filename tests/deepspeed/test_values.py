"""Our verdict on a value is pydantic's, for every key of every model and a handful of odd values."""

from __future__ import annotations

from typing import Any

import pytest

from zerocfg.deepspeed import keys
from zerocfg.deepspeed.introspect.models import MODELS
from zerocfg.deepspeed.introspect.release import load
from zerocfg.deepspeed.values import Judgement, Outcome, judge

ODD: list[Any] = [
    *(True, False, 0, 1, 2, -1, 3, 4, 2**62, 1.0, 0.0, -0.0, 2.0, 1.5, 0.25, 5e8, 1e30, float("nan"), float("inf")),
    *("1", "2", " 8 ", "8.0", "1.5", "5e8", "true", "TRUE", "on", "yes", "off", "nan", "inf", "1_000", "+3", "0x10", "", "abc"),
    *("cpu", "CPU", "nvme", "none", "auto", "torch", "llama", "symmetric", "epoch"),
    *(None, [], ["a"], [1], ["z1"], {}),
]
TAKEN = (Outcome.OK, Outcome.COERCED, Outcome.AUTO)

STRICTER = {
    "zero_optimization.offload_optimizer.ratio": "below 1 is refused at the stage the test runs at, which ZC639 tells",
    "zero_optimization.compute_grad_norm": "false is refused at the stage the test runs at, which ZC674 tells",
    "fp16.hysteresis": "0 is accepted and means something else",
    "tensor_parallel.autotp_size": "a negative size is accepted",
    "tensor_parallel.tp.tp_size": "0 and below are accepted",
    "tensor_parallel.tp.mpu": "any value is accepted for an object",
    "tensor_parallel.tp.tp_group": "any value is accepted for an object",
    "tensor_parallel.preset_model": "an unknown name is accepted and ignored",
}
"""Keys on which we differ on purpose."""

MODEL_KEYS = [key for key in keys.all_keys() if key.reader == "model" and key.path not in MODELS]


@pytest.mark.parametrize("key", MODEL_KEYS, ids=lambda key: key.path)
def test_agrees_with_the_model(key: keys.Key, config_class: Any) -> None:
    section = max((path for path in MODELS if key.path.startswith(path + ".")), key=len)
    model = load(MODELS[section])
    for value in ODD:
        data: Any = value
        for name in reversed(key.path[len(section) + 1 :].split(".")):
            data = {name: data}
        try:
            model(**data)
            accepted = True
        except Exception:
            accepted = False
        ours = judge(key, value).outcome in TAKEN
        if key.path not in STRICTER:
            assert ours == accepted, (value, judge(key, value))


def test_absurdly_large_numbers_stop_here() -> None:
    key = keys.lookup("zero_optimization.sub_group_size")
    assert key is not None
    for value in (2**63, 10**400, 10**5000, -(10**5000)):
        assert judge(key, value) == Judgement(Outcome.LIMIT, key.default, "must be less than 2^63")
    assert judge(key, "9" * 5000).outcome is Outcome.REFUSED


def test_the_coerced_value_is_the_models(config_class: Any) -> None:
    from deepspeed.runtime.zero.config import DeepSpeedZeroConfig

    for name in ("reduce_bucket_size", "overlap_comm", "contiguous_gradients", "stage", "sub_group_size"):
        key = keys.lookup(f"zero_optimization.{name}")
        assert key is not None
        for value in ODD:
            judgement = judge(key, value)
            if judgement.usable and value is not None:
                got = getattr(DeepSpeedZeroConfig(**{name: value}), name)
                assert (got, type(got)) == (judgement.value, type(judgement.value)), (name, value)


@pytest.mark.parametrize(
    ("path", "value", "outcome"),
    [
        ("gradient_clipping", "1.0", Outcome.KEPT),
        ("gradient_clipping", 1, Outcome.OK),
        ("gradient_clipping", float("inf"), Outcome.NONFINITE),
        ("gradient_clipping", "auto", Outcome.AUTO),
        ("gradient_clipping", None, Outcome.NULL),
        ("train_batch_size", None, Outcome.OK),
        ("train_batch_size", 8.0, Outcome.COERCED),
        ("train_batch_size", 8.5, Outcome.FRACTION),
        ("train_batch_size", True, Outcome.COERCED),
        ("train_batch_size", -8, Outcome.LIMIT),
        ("wall_clock_breakdown", 1, Outcome.COERCED),
        ("wall_clock_breakdown", "true", Outcome.KEPT),
        ("communication_data_type", "FP32", Outcome.OK),
        ("communication_data_type", "fp64", Outcome.CHOICE),
        ("optimizer", [], Outcome.SHAPE),
        ("aio", None, Outcome.OK),
        ("data_types.keep_in_fp32_modules", "auto", Outcome.OK),
        ("data_types.keep_in_fp32_modules", ["norm"], Outcome.OK),
        ("data_types.keep_in_fp32_modules", "norm", Outcome.KEPT),
        ("expert_parallel.load_balance_coeff", 0.1, Outcome.KEPT),
    ],
)
def test_raw_keys_keep_what_stands_there(path: str, value: Any, outcome: Outcome) -> None:
    key = keys.lookup(path)
    assert key is not None
    assert judge(key, value).outcome is outcome
