"""model.*: dims that are given, the rest by the field's common rule."""

from __future__ import annotations

import math

from zerocfg.diagnostics import Diagnostic
from zerocfg.facts import ModelFacts
from zerocfg.provenance import Reason, asked, rule
from zerocfg.resolved import Resolved
from zerocfg.schema.model import ModelConfig

_PASS = "resolve.model"
MOST_LAYERS = 10_000
"""Far beyond any model; each layer's parameters are counted one by one."""
_NEEDED = ("num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size", "sequence_length")


def resolve_model(config: ModelConfig) -> Resolved[ModelFacts | None]:
    """None when no dim at all is given. Codes: ZC130 some dims given and others missing, ZC131 dims that do not fit."""
    if config.num_parameters is not None and config.num_parameters < 1:
        return Resolved(None, {}, [_out_of_range("num_parameters", int(config.num_parameters), "at least 1", "1 or more")])
    given = {name: getattr(config, name) for name in _NEEDED}
    if all(value is None for value in given.values()):
        return Resolved(None, {})
    written = [name for name, value in given.items() if value is not None]
    problems = [
        Diagnostic(
            code="ZC130",
            path=f"model.{name}",
            message=f"model.{name} is missing while other dims are given",
            hint=f"model.{name}=VALUE, or {' '.join(f'model.{other}=null' for other in written)} to describe nothing",
        )
        for name, value in given.items()
        if value is None
    ]
    if problems:
        return Resolved(None, {}, problems)
    dims: dict[str, int] = {name: int(value) for name, value in given.items() if value is not None}
    reasons: dict[str, Reason] = {name: asked(f"model.{name}") for name in dims}
    heads, hidden = dims["num_attention_heads"], dims["hidden_size"]
    for name, default, why in (
        ("num_key_value_heads", heads, f"num_attention_heads = {heads}"),
        ("head_dim", hidden // max(1, heads), f"hidden_size / num_attention_heads = {hidden} / {heads}"),
        ("intermediate_size", 4 * hidden, f"4 x hidden_size = 4 x {hidden}"),
    ):
        value = getattr(config, name)
        dims[name] = default if value is None else int(value)
        reasons[name] = rule(_PASS, why) if value is None else asked(f"model.{name}")
    # what follows from a dim below 1 is no mistake of its own
    problems = [_out_of_range(name, dims[name], "at least 1", "1 or more") for name in reasons if dims[name] < 1 and not reasons[name].by]
    if dims["num_hidden_layers"] > MOST_LAYERS:
        problems.append(_out_of_range("num_hidden_layers", dims["num_hidden_layers"], f"at most {MOST_LAYERS}", f"{MOST_LAYERS} or fewer"))
    if not problems:
        problems = []
        if config.head_dim is None and hidden % heads:
            near = f"hidden_size={hidden // heads * heads or heads} or {(hidden // heads + 1) * heads}"
            problems.append(_not_a_multiple("hidden_size", hidden, heads, "num_attention_heads", near))
        if heads % (groups := dims["num_key_value_heads"]):
            fits = f"num_key_value_heads={math.gcd(heads, groups)}"
            problems.append(_not_a_multiple("num_attention_heads", heads, groups, "num_key_value_heads", fits))
    if problems:
        return Resolved(None, {}, problems)
    options = {
        "tie_word_embeddings": config.tie_word_embeddings,
        "mlp": config.mlp.value,
        "norm": config.norm.value,
        "positions": config.positions.value,
        "bias": config.bias,
        "name": config.name,
    }
    reasons |= {name: asked(f"model.{name}") for name in options}
    return Resolved(ModelFacts(**dims, **options), reasons)  # type: ignore[arg-type]


def _out_of_range(name: str, value: int, allowed: str, hint: str) -> Diagnostic:
    return Diagnostic(code="ZC131", path=f"model.{name}", message=f"model.{name}={value} must be {allowed}", hint=f"model.{name}={hint}")


def _not_a_multiple(name: str, value: int, by: int, by_name: str, instead: str) -> Diagnostic:
    return Diagnostic(
        code="ZC131",
        path=f"model.{name}",
        message=f"model.{name}={value} is not a multiple of model.{by_name}={by}",
        detail=(f"{value} / {by} = {value / by:.4g}",),
        hint=f"model.{instead}",
    )
