"""The batch triple at a world size, as DeepSpeed infers and asserts it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zerocfg.deepspeed.check import check_deepspeed
from zerocfg.diagnostics import Severity, has_errors

WARNING = Severity.WARNING
TRAIN, MICRO, STEPS = "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"


def batch(train: Any = ..., micro: Any = ..., steps: Any = 1) -> dict[str, Any]:
    """BASE has a micro batch, so `...` for micro removes it."""
    made = {MICRO: micro}
    made.update({TRAIN: train} if train is not ... else {})
    made.update({STEPS: steps} if steps is not ... else {})
    return made


CASES: list[dict[str, Any]] = [
    {"code": "ZC640", "path": MICRO, "bad": batch(), "good": batch(micro=1), "parser": "raises"},
    {"code": "ZC641", "path": TRAIN, "bad": batch(64, 2, 8), "good": batch(128, 2, 8), "options": {"world_size": 8}, "parser": "raises"},
    {
        "code": "ZC641",
        "path": TRAIN,
        "bad": batch(100, 2, ...),
        "good": batch(96, 2, ...),
        "options": {"world_size": 8},
        "parser": "raises",
    },
    {"code": "ZC641", "path": TRAIN, "bad": batch(4, steps=8), "good": batch(8, steps=8), "parser": "raises"},
    {
        "code": "ZC641",
        "path": TRAIN,
        "bad": batch(4, steps=...),
        "good": batch(8, steps=...),
        "options": {"world_size": 8},
        "parser": "raises",
    },
    {
        "code": "ZC642",
        "path": TRAIN,
        "bad": batch(4, steps=8),
        "good": batch(8, steps=8),
        "options": {"world_size": None},
        "parser": "raises",
    },
    {"code": "ZC642", "path": TRAIN, "bad": batch(30, 4, 2), "good": batch(8, 4, 2), "options": {"world_size": None}, "parser": "raises"},
    {
        "code": "ZC643",
        "path": TRAIN,
        "severity": WARNING,
        "bad": {**batch(4, 1, 1), "tensor_parallel.autotp_size": 2},
        "good": {**batch(micro=1), "tensor_parallel.autotp_size": 2},
        "options": {"world_size": 4},
        "parser": "accepts",
    },
    {
        "code": "ZC643",
        "path": TRAIN,
        "bad": {**batch(4, 1, 1), "tensor_parallel.autotp_size": 2, "zero_optimization.stage": 3},
        "good": {**batch(micro=1), "tensor_parallel.autotp_size": 2, "zero_optimization.stage": 3},
        "options": {"world_size": 4},
        "parser": "accepts",
    },
    {
        "code": "ZC644",
        "path": "sequence_parallel_size",
        "severity": WARNING,
        "bad": {"sequence_parallel_size": 2},
        "good": {"sequence_parallel_size": 2, "data_parallel_size": 2},
        "options": {"world_size": 4},
        "parser": "accepts",
    },
    {
        "code": "ZC644",
        "path": "data_parallel_size",
        "bad": {"sequence_parallel_size": 2, "data_parallel_size": 3},
        "good": {"sequence_parallel_size": 2, "data_parallel_size": 2},
        "options": {"world_size": 4},
        "parser": "accepts",
    },
    {
        "code": "ZC644",
        "path": "sequence_parallel_size",
        "bad": {"sequence_parallel_size": 3},
        "good": {},
        "options": {"world_size": 4},
        "parser": "accepts",
    },
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['code']}-{case['path']}-{case['bad']}"[:60])
def test_case(case: Mapping[str, Any], examine: Callable[[Mapping[str, Any]], None]) -> None:
    examine(case)


def test_the_arithmetic_and_the_nearest_sizes_are_shown() -> None:
    config = {"gradient_clipping": 1.0, TRAIN: 100, MICRO: 2, STEPS: 4}
    (found,) = check_deepspeed(config, world_size=8)
    assert found.render() == (
        "error[ZC641] deepspeed.train_batch_size=100 cannot be reached on 8 ranks\n"
        "  100 = micro batch 2 x accumulation 4 x ranks 8 does not hold\n"
        "  try: deepspeed.train_batch_size=64 or deepspeed.train_batch_size=128"
    )


def test_ranks_given_by_the_caller_win() -> None:
    config = {"gradient_clipping": 1.0, TRAIN: 8, MICRO: 2, STEPS: 2}
    assert check_deepspeed(config, world_size=4, data_parallel_size=2) == []
    assert [d.code for d in check_deepspeed(config, world_size=4)] == ["ZC641"]


number = st.one_of(st.none(), st.integers(min_value=1, max_value=64))


@settings(max_examples=300, deadline=None)
@given(train=number, micro=number, steps=number, world=st.integers(min_value=1, max_value=16))
def test_agrees_with_deepspeed_on_every_triple(
    parse: Callable[..., str | None], train: int | None, micro: int | None, steps: int | None, world: int
) -> None:
    config: dict[str, Any] = {"gradient_clipping": 1.0}
    config.update({name: size for name, size in ((TRAIN, train), (MICRO, micro), (STEPS, steps)) if size is not None})
    assert has_errors(check_deepspeed(config, world_size=world)) == (parse(config, world) is not None)
