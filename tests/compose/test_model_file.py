"""model.hf_config=PATH: the file's dims, and where each came from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from zerocfg.compose import compose
from zerocfg.diagnostics import Severity

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 8192,
    "model_type": "llama",
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "tie_word_embeddings": False,
    "vocab_size": 128256,
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    model = tmp_path / "models" / "my llama"
    model.mkdir(parents=True)
    (model / "config.json").write_text(json.dumps(LLAMA, indent=2))
    return model


@pytest.mark.parametrize("path", ["models/my llama/config.json", "models/my llama", "./models/my llama/"])
def test_dims_and_origins_of_a_file(folder: Path, path: str) -> None:
    composed = compose([f"model.hf_config={path}"])
    assert composed.diagnostics == []
    assert composed.container["model"] == {
        "name": "my llama",
        "hf_config": path,
        "profile": None,
        "num_hidden_layers": 32,
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": None,
        "intermediate_size": 14336,
        "vocab_size": 128256,
        "tie_word_embeddings": False,
        "sequence_length": 8192,
        "mlp": "swiglu",
        "norm": "rmsnorm",
        "positions": "rotary",
        "bias": False,
        "num_parameters": None,
    }
    origins = composed.origins
    assert origins.of("model.hidden_size") == "models/my llama/config.json:5"
    assert origins.of("model.sequence_length") == "models/my llama/config.json:7"
    assert origins.of("model.norm") == "models/my llama/config.json (model_type llama)"
    assert origins.of("model.head_dim") == "models/my llama/config.json (not given)"
    assert origins.of("model.hf_config") == f"command line: model.hf_config={path}"


def test_an_absolute_path_and_a_home_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder.parent.parent))
    for path in (str(folder), '"~/models/my llama"'):
        assert compose([f"model.hf_config={path}"]).container["model"]["hidden_size"] == 4096


def test_what_the_user_says_of_a_dim_stays(folder: Path) -> None:
    composed = compose(["model=gpt_1b3", "model.hf_config=models/my llama", "model.sequence_length=2048"])
    assert composed.container["model"]["sequence_length"] == 2048
    assert composed.container["model"]["num_hidden_layers"] == 32
    assert composed.origins.of("model.sequence_length") == "command line: model.sequence_length=2048"


def test_an_option_of_ones_own_says_both_in_one_file(folder: Path) -> None:
    conf = folder.parent.parent / "conf"
    (conf / "model").mkdir(parents=True)
    (conf / "config.yaml").write_text("defaults:\n  - zerocfg\n  - _self_\n  - override model: mine\n")
    (conf / "model" / "mine.yaml").write_text("name: mine\nhf_config: models/my llama\nsequence_length: 1024\n")
    model = compose([], config_path="conf").container["model"]
    assert (model["name"], model["sequence_length"], model["hidden_size"]) == ("mine", 1024, 4096)


def test_a_file_replaces_the_dims_of_an_option_that_it_does_not_name(folder: Path) -> None:
    (folder / "config.json").write_text(
        json.dumps({k: v for k, v in LLAMA.items() if k not in ("num_key_value_heads", "intermediate_size")})
    )
    model = compose(["model=llama3_70b", "model.hf_config=models/my llama"]).container["model"]
    assert (model["num_key_value_heads"], model["intermediate_size"]) == (None, None)


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [
        (None, "ZC171", "No such file or directory"),
        ("{", "ZC171", "is not JSON"),
        ("[]", "ZC171", "it holds list, not an object"),
        ('{"model_type": "llama"}', "ZC171", "it has no num_hidden_layers"),
        (json.dumps({**LLAMA, "num_local_experts": 8}), "ZC172", "mixture-of-experts"),
        (json.dumps({**LLAMA, "is_encoder_decoder": True}), "ZC172", "encoder and a decoder"),
    ],
)
def test_a_file_that_does_not_describe_a_decoder(folder: Path, content: Any, code: str, words: str) -> None:
    path = folder / "config.json"
    path.unlink() if content is None else path.write_text(content)
    composed = compose([f"model.hf_config={path}", "train.steps=3"])
    (found,) = composed.diagnostics
    assert (found.code, found.path, found.severity) == (code, "model.hf_config", Severity.ERROR)
    assert words in found.message
    assert found.message.startswith(f"model.hf_config={path}")
    assert composed.container["train"]["steps"] == 3


def test_a_name_on_the_hub_is_no_path(folder: Path) -> None:
    (found,) = compose(["model.hf_config=meta-llama/Llama-3.1-8B"]).diagnostics
    assert found.code == "ZC171"
    assert "download its config.json first" in found.hint


def test_guesses_are_a_note(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps({**LLAMA, "model_type": "brandnew"}))
    (found,) = compose([f"model.hf_config={folder}"]).diagnostics
    assert (found.code, found.severity) == ("ZC173", Severity.NOTE)
    assert "'brandnew' is unknown" in found.message
