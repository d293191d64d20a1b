"""Published config.json files (their dims only) -> our model fields, and the parameter counts that the model cards give."""

from __future__ import annotations

from typing import Any

import pytest

from zerocfg.hf import FAMILIES, read_model
from zerocfg.schema.load import field_names, load
from zerocfg.schema.model import ModelConfig

LLAMA3_8B = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": False,
    "attention_bias": False,
    "hidden_act": "silu",
}
GPT2 = {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024, "n_ctx": 1024, "vocab_size": 50257}
QWEN3_32B = {
    "model_type": "qwen3",
    "hidden_size": 5120,
    "num_hidden_layers": 64,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 25600,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "tie_word_embeddings": False,
}
PYTHIA_1B4 = {
    "model_type": "gpt_neox",
    "hidden_size": 2048,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 8192,
    "vocab_size": 50304,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
}
GEMMA_7B = {
    "model_type": "gemma",
    "hidden_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "head_dim": 256,
    "intermediate_size": 24576,
    "vocab_size": 256000,
    "max_position_embeddings": 8192,
}
PHI_2 = {
    "model_type": "phi",
    "hidden_size": 2560,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "intermediate_size": 10240,
    "vocab_size": 51200,
    "max_position_embeddings": 2048,
}


def parameters(config: dict[str, Any]) -> int:
    """Counted by the product itself, from the fields that the file gave."""
    from zerocfg.passes.resolve.model import resolve_model

    found = read_model(config)
    assert found.problem == ""
    typed, problems = load({"model": dict(found.fields)})
    assert problems == []
    facts = resolve_model(typed.model).value
    assert facts is not None
    return facts.num_parameters


@pytest.mark.parametrize(
    ("config", "published", "within"),
    [
        (LLAMA3_8B, 8_030_261_248, 0),
        (GPT2, 124_439_808, 0),
        (QWEN3_32B, 32_762_123_264, 0.001),  # its query and key norms are not counted
        (PYTHIA_1B4, 1_414_647_808, 0),
        (GEMMA_7B, 8_537_680_896, 0),
        (PHI_2, 2_779_683_840, 0.001),  # one norm a block, and a bias on the head
    ],
    ids=["llama3_8b", "gpt2", "qwen3_32b", "pythia_1b4", "gemma_7b", "phi_2"],
)
def test_parameter_counts_of_published_models(config: dict[str, Any], published: int, within: float) -> None:
    assert abs(parameters(config) - published) <= within * published


def test_whole_mapping_of_a_llama() -> None:
    found = read_model(LLAMA3_8B)
    assert dict(found.fields) == {
        "num_hidden_layers": 32,
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 14336,
        "vocab_size": 128256,
        "sequence_length": 8192,
        "mlp": "swiglu",
        "norm": "rmsnorm",
        "positions": "rotary",
        "bias": False,
        "tie_word_embeddings": False,
    }
    assert found.keys["sequence_length"] == "max_position_embeddings"
    assert found.keys["norm"] == "model_type llama"
    assert found.notes == ()


def test_whole_mapping_of_gpt2_under_its_own_names() -> None:
    found = read_model(GPT2)
    assert dict(found.fields) == {
        "num_hidden_layers": 12,
        "hidden_size": 768,
        "num_attention_heads": 12,
        "vocab_size": 50257,
        "sequence_length": 1024,
        "mlp": "gelu",
        "norm": "layernorm",
        "positions": "learned",
        "bias": True,
        "tie_word_embeddings": True,
    }
    assert found.keys["hidden_size"] == "n_embd"


def test_every_field_exists_in_the_schema() -> None:
    names = set(field_names(ModelConfig))
    for model_type in FAMILIES:
        assert set(read_model({**LLAMA3_8B, "model_type": model_type}).fields) <= names


def test_unknown_type_is_read_by_the_standard_names_and_says_so() -> None:
    found = read_model({**LLAMA3_8B, "model_type": "brandnew", "rms_norm_eps": 1e-5, "rope_theta": 1e4})
    assert found.fields["norm"] == "rmsnorm"
    assert found.fields["mlp"] == "swiglu"
    assert found.fields["positions"] == "rotary"
    assert found.fields["hidden_size"] == 4096
    (note,) = found.notes
    assert "'brandnew' is unknown" in note
    assert "rmsnorm" in note


def test_no_type_at_all_says_so() -> None:
    config = {k: v for k, v in LLAMA3_8B.items() if k != "model_type"}
    assert "no model_type" in read_model(config).notes[0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model_type": "mixtral", "num_local_experts": 8}, ["num_local_experts=8", "mixture-of-experts"]),
        ({"model_type": "deepseek_v3", "n_routed_experts": 256}, ["n_routed_experts=256", "mixture-of-experts"]),
        ({"model_type": "t5", "is_encoder_decoder": True}, ["'t5'", "encoder"]),
        ({"model_type": "bert"}, ["'bert'", "decoder-only"]),
        ({"model_type": "mamba2"}, ["'mamba2'", "not a transformer"]),
    ],
)
def test_other_architectures_are_refused_by_name(change: dict[str, Any], words: list[str]) -> None:
    found = read_model({**LLAMA3_8B, **change})
    assert found.unsupported
    assert dict(found.fields) == {}
    for word in words:
        assert word in found.problem


@pytest.mark.parametrize(
    ("config", "word"),
    [
        ([], "list"),
        ({}, "num_hidden_layers or n_layer"),
        ({**LLAMA3_8B, "hidden_size": "4096"}, "hidden_size='4096' is not a count"),
        ({**LLAMA3_8B, "hidden_size": True}, "hidden_size=True is not a count"),
        ({**LLAMA3_8B, "vocab_size": 0}, "vocab_size=0 is not a count"),
        ({**LLAMA3_8B, "vocab_size": 1.5}, "vocab_size=1.5 is not a count"),
        ({**LLAMA3_8B, "vocab_size": None}, "vocab_size"),
    ],
)
def test_a_damaged_file_is_named(config: Any, word: str) -> None:
    found = read_model(config)
    assert word in found.problem
    assert not found.unsupported
    assert dict(found.fields) == {}


def test_nested_text_config_of_a_multimodal_model_is_counted_and_said() -> None:
    found = read_model({"model_type": "gemma3", "tie_word_embeddings": True, "text_config": {**GEMMA_7B, "model_type": "gemma3_text"}})
    assert found.fields["head_dim"] == 256
    assert found.fields["tie_word_embeddings"] is True
    assert "text_config" in found.notes[0]


def test_multi_query_falcon_has_one_key_head_whatever_it_writes() -> None:
    falcon = {
        "model_type": "falcon",
        "hidden_size": 4544,
        "num_hidden_layers": 32,
        "num_attention_heads": 71,
        "num_kv_heads": 71,
        "multi_query": True,
        "new_decoder_architecture": False,
        "vocab_size": 65024,
        "bias": False,
    }
    found = read_model(falcon)
    assert found.fields["num_key_value_heads"] == 1
    assert read_model({**falcon, "new_decoder_architecture": True, "num_kv_heads": 8}).fields["num_key_value_heads"] == 8


@pytest.mark.parametrize(
    ("change", "bias"),
    [({}, False), ({"attention_bias": True}, True), ({"mlp_bias": True}, True), ({"attention_bias": True, "use_bias": False}, False)],
)
def test_bias_of_a_family_without_biases(change: dict[str, Any], bias: bool) -> None:
    assert read_model({**LLAMA3_8B, **change}).fields["bias"] is bias


def test_bias_of_half_a_block_does_not_take_the_other_half_away() -> None:
    assert read_model({**PYTHIA_1B4, "attention_bias": False}).fields["bias"] is True
