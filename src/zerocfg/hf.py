"""A Hugging Face config.json -> the fields of our `model` group. Pure: takes the parsed JSON, reads nothing.

Defaults of an architecture that its config.json leaves out (a norm's kind, whether the embedding is tied) are those of its
`configuration_*.py` and `modeling_*.py` in transformers 4.5x.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Family:
    """What an architecture fixes outside of its config.json."""

    mlp: str = "swiglu"
    """gelu: two matrices with any activation between; swiglu: three, the gated kind with any activation."""
    norm: str = "rmsnorm"
    positions: str = "rotary"
    """learned, or rotary for everything without parameters (ALiBi too)."""
    bias: bool = False
    """When the config.json has none of the bias keys."""
    tie: bool = False
    """When the config.json has no tie_word_embeddings."""


_LLAMA = Family()
_GEMMA = Family(tie=True)
_GPT2 = Family(mlp="gelu", norm="layernorm", positions="learned", bias=True, tie=True)
_NEOX = Family(mlp="gelu", norm="layernorm", bias=True)

FAMILIES: dict[str, Family] = {
    "llama": _LLAMA,
    "mistral": _LLAMA,
    "ministral": _LLAMA,
    # query, key and value have biases, the rest has none: under 0.01 % of the parameters, counted as none
    "qwen2": _LLAMA,
    "qwen3": _LLAMA,
    "phi3": _LLAMA,
    "olmo2": _LLAMA,
    "granite": _LLAMA,
    "smollm3": Family(tie=True),
    "gemma": _GEMMA,
    "gemma2": _GEMMA,
    "gemma3_text": _GEMMA,
    "cohere": Family(norm="layernorm", tie=True),
    "stablelm": Family(norm="layernorm"),
    "gpt2": _GPT2,
    "gpt_bigcode": _GPT2,
    "opt": _GPT2,
    "gpt_neo": _GPT2,
    "bloom": Family(mlp="gelu", norm="layernorm", bias=True, tie=True),
    "gpt_neox": _NEOX,
    "gptj": _NEOX,
    "phi": _NEOX,
    "starcoder2": Family(mlp="gelu", norm="layernorm", bias=True, tie=True),
    "falcon": Family(mlp="gelu", norm="layernorm", tie=True),
}
"""By model_type."""

NAMES: dict[str, tuple[str, ...]] = {
    "num_hidden_layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "hidden_size": ("hidden_size", "n_embd", "d_model"),
    "num_attention_heads": ("num_attention_heads", "n_head", "n_heads", "num_heads"),
    "num_key_value_heads": ("num_key_value_heads", "num_kv_heads"),
    "head_dim": ("head_dim",),
    "intermediate_size": ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"),
    "vocab_size": ("vocab_size",),
    "sequence_length": ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length"),
}
"""Our field -> the names that config.json files have for it, the standard one first."""

REQUIRED = ("num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size")
_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts", "num_experts_per_tok")
_ENCODERS = ("bert", "roberta", "distilbert", "electra", "deberta", "deberta-v2", "albert", "modernbert", "vit", "clip")


@dataclass(frozen=True, slots=True)
class HfModel:
    """What a config.json says. `problem` set: it cannot be used, and why; `fields` is empty then."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    """Fields of ModelConfig; a field that the file is silent about and the family does not fix is absent."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Field -> the key of the file that it came from, or the rule that gave it."""
    notes: tuple[str, ...] = ()
    """What had to be guessed."""
    problem: str = ""
    unsupported: bool = False
    """The problem is the architecture, not the file."""


def read_model(config: Any) -> HfModel:
    """Map a parsed config.json. Dims are counts of elements, sequence_length is the longest the positions allow."""
    if not isinstance(config, Mapping):
        return HfModel(problem=f"it holds {type(config).__name__}, not an object")
    notes: list[str] = []
    inner = config.get("text_config")
    if isinstance(inner, Mapping) and not any(name in config for name in NAMES["hidden_size"]):
        notes.append("only its text_config is counted: the vision or audio part is not")
        config = {"tie_word_embeddings": config["tie_word_embeddings"], **inner} if "tie_word_embeddings" in config else inner
    model_type = str(config.get("model_type") or "")
    if refused := _refused(config, model_type):
        return HfModel(problem=refused, unsupported=True)

    fields: dict[str, Any] = {}
    keys: dict[str, str] = {}
    for ours, names in NAMES.items():
        for name in names:
            if config.get(name) is not None:
                value = config[name]
                if isinstance(value, bool) or not isinstance(value, (int, float)) or value != int(value) or value < 1:
                    return HfModel(problem=f"{name}={value!r} is not a count")
                fields[ours], keys[ours] = int(value), name
                break
    missing = [ours for ours in REQUIRED if ours not in fields]
    if missing:
        return HfModel(problem="it has no " + ", ".join(" or ".join(NAMES[name]) for name in missing))
    if config.get("multi_query") and not config.get("new_decoder_architecture"):  # Falcon 7B writes num_kv_heads too, and ignores it
        fields["num_key_value_heads"], keys["num_key_value_heads"] = 1, "multi_query"

    family = FAMILIES.get(model_type)
    if family is None:
        family = _guess(config)
        called = f"model_type {model_type!r} is unknown" if model_type else "it has no model_type"
        notes.append(f"{called}: read by the standard names, guessed {family.mlp}, {family.norm}, {family.positions} positions")
    rule = f"model_type {model_type}" if model_type in FAMILIES else "guessed"
    for name in ("mlp", "norm", "positions"):
        fields[name], keys[name] = getattr(family, name), rule
    fields["bias"], keys["bias"] = _bias(config, family, rule)
    tied = config.get("tie_word_embeddings")
    fields["tie_word_embeddings"] = tied if isinstance(tied, bool) else family.tie
    keys["tie_word_embeddings"] = "tie_word_embeddings" if isinstance(tied, bool) else rule
    return HfModel(fields, keys, tuple(notes))


def _bias(config: Mapping[str, Any], family: Family, rule: str) -> tuple[bool, str]:
    for name in ("use_bias", "bias"):
        if isinstance(config.get(name), bool):
            return config[name], name
    # these speak of one half of a block: they can add biases to a family that has none, not take the other half's away
    for name in ("attention_bias", "mlp_bias"):
        if config.get(name) is True:
            return True, name
    return family.bias, rule


def _refused(config: Mapping[str, Any], model_type: str) -> str:
    experts = [name for name in _EXPERTS if isinstance(config.get(name), int) and config[name] > 1]
    if experts:
        return f"{experts[0]}={config[experts[0]]}: mixture-of-experts models are not described by the dims of one dense block"
    if config.get("is_encoder_decoder"):
        return f"model_type {model_type!r} is an encoder and a decoder; the dims describe a decoder only"
    if model_type in _ENCODERS:
        return f"model_type {model_type!r} is not a decoder-only transformer"
    if model_type.startswith(("mamba", "rwkv", "falcon_mamba")):
        return f"model_type {model_type!r} is not a transformer"
    return ""


def _guess(config: Mapping[str, Any]) -> Family:
    gated = str(config.get("hidden_act") or config.get("hidden_activation") or "") in ("silu", "swish", "swiglu")
    rotary = any(name.startswith(("rope_", "rotary_")) or name in ("partial_rotary_factor", "alibi") for name in config)
    rms = "rms_norm_eps" in config
    return Family(
        mlp="swiglu" if gated else "gelu",
        norm="rmsnorm" if rms else "layernorm",
        positions="rotary" if rotary or gated else "learned",
        bias=not (rms or gated),
        # PretrainedConfig's own default
        tie=True,
    )
