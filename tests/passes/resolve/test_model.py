from __future__ import annotations

from typing import Any

import pytest

from zerocfg.facts import ModelFacts
from zerocfg.passes.resolve.model import resolve_model
from zerocfg.schema.model import ModelConfig
from zerocfg.schema.types import Mlp, Norm, Positions

NEEDED = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100, "sequence_length": 16}


def test_nothing_given_describes_nothing() -> None:
    resolved = resolve_model(ModelConfig(name="none", tie_word_embeddings=False))
    assert (resolved.value, dict(resolved.reasons), list(resolved.problems)) == (None, {}, [])


@pytest.mark.parametrize(
    ("given", "expected", "derived"),
    [
        (
            {},
            {"num_key_value_heads": 4, "head_dim": 16, "intermediate_size": 256},
            {
                "num_key_value_heads": "num_attention_heads = 4",
                "head_dim": "hidden_size / num_attention_heads = 64 / 4",
                "intermediate_size": "4 x hidden_size = 4 x 64",
            },
        ),
        (
            {
                "num_key_value_heads": 2,
                "head_dim": 32,
                "intermediate_size": 100.0,
                "tie_word_embeddings": False,
                "mlp": Mlp.swiglu,
                "norm": Norm.rmsnorm,
                "positions": Positions.rotary,
                "bias": False,
                "name": "mine",
            },
            {
                "num_key_value_heads": 2,
                "head_dim": 32,
                "intermediate_size": 100,
                "tie_word_embeddings": False,
                "mlp": "swiglu",
                "norm": "rmsnorm",
                "positions": "rotary",
                "bias": False,
                "name": "mine",
            },
            {},
        ),
        # heads of their own width need not divide the hidden size
        (
            {"hidden_size": 66, "head_dim": 10},
            {"hidden_size": 66, "num_key_value_heads": 4, "head_dim": 10, "intermediate_size": 264},
            {"num_key_value_heads": "num_attention_heads = 4", "intermediate_size": "4 x hidden_size = 4 x 66"},
        ),
    ],
)
def test_dims(given: dict[str, Any], expected: dict[str, Any], derived: dict[str, str]) -> None:
    resolved = resolve_model(ModelConfig(**{**NEEDED, **given}))
    common = {
        "tie_word_embeddings": True,
        "mlp": "gelu",
        "norm": "layernorm",
        "positions": "learned",
        "bias": True,
        "name": "",
    }
    assert resolved.value == ModelFacts(**{**NEEDED, **common, **expected})
    assert {name: reason.text for name, reason in resolved.reasons.items() if reason.by} == derived
    assert list(resolved.problems) == []


REST = "model.num_hidden_layers=null model.num_attention_heads=null model.sequence_length=null"


@pytest.mark.parametrize(
    ("given", "report"),
    [
        (
            {"vocab_size": None, "hidden_size": None},
            f"""\
error[ZC130] model.hidden_size is missing while other dims are given
  try: model.hidden_size=VALUE, or {REST} to describe nothing
error[ZC130] model.vocab_size is missing while other dims are given
  try: model.vocab_size=VALUE, or {REST} to describe nothing""",
        ),
        (
            {"num_attention_heads": 6, "num_key_value_heads": 4},
            """\
error[ZC131] model.hidden_size=64 is not a multiple of model.num_attention_heads=6
  64 / 6 = 10.67
  try: model.hidden_size=60 or 66
error[ZC131] model.num_attention_heads=6 is not a multiple of model.num_key_value_heads=4
  6 / 4 = 1.5
  try: model.num_key_value_heads=2""",
        ),
        (
            {"num_attention_heads": 0, "intermediate_size": -1},
            """\
error[ZC131] model.num_attention_heads=0 must be at least 1
  try: model.num_attention_heads=1 or more
error[ZC131] model.intermediate_size=-1 must be at least 1
  try: model.intermediate_size=1 or more""",
        ),
        (
            {"num_parameters": -5},
            """\
error[ZC131] model.num_parameters=-5 must be at least 1
  try: model.num_parameters=1 or more""",
        ),
        (
            {"hidden_size": -64, "num_hidden_layers": 1_000_000_000},
            """\
error[ZC131] model.hidden_size=-64 must be at least 1
  try: model.hidden_size=1 or more
error[ZC131] model.num_hidden_layers=1000000000 must be at most 10000
  try: model.num_hidden_layers=10000 or fewer""",
        ),
    ],
)
def test_dims_that_do_not_fit(given: dict[str, Any], report: str) -> None:
    resolved = resolve_model(ModelConfig(**{**NEEDED, **given}))
    assert "\n".join(problem.render() for problem in resolved.problems) == report
    assert resolved.value is None
