from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

MODEL = """
import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(100, 32)
        self.layers = nn.ModuleList(Layer() for _ in range(3))
        self.head = nn.Linear(32, 100)

    def forward(self, tokens, targets):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return nn.functional.cross_entropy(self.head(x).flatten(0, 1).float(), targets.flatten())


def build():
    return Net()


def broken():
    raise RuntimeError("no such model")


def number():
    return 3


def frozen():
    return Net().requires_grad_(False)


def broken_inputs(samples):
    return {}["rows"]


def number_of(samples):
    return samples


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.head = nn.Conv2d(3, 10, 3), nn.Linear(10, 1, bias=False)

    def forward(self, x):
        return self.head(self.conv(x).mean((2, 3))).sum()


def build_images():
    return Images()


def images(samples):
    return (torch.zeros(samples, 3, 32, 32),)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "profiled_net.py").write_text(MODEL, encoding="utf-8")
    monkeypatch.delitem(__import__("sys").modules, "profiled_net", raising=False)
    return "profiled_net"


def test_json(cli: Any, module: str) -> None:
    status, out, _ = cli("profile", f"{module}:build", "--input", "16x100", "--json")
    told = json.loads(out)
    assert status == 0
    assert told["parameters"]["trainable"] == 100 * 32 + 3 * (32 * 64 + 64 + 64 * 32 + 32) + 32 * 100 + 100
    assert told["block_classes"] == ["Layer"]
    assert (told["num_blocks"], told["tokens"], told["dtype"]) == (3, 16, "bf16")
    assert told["block_input"] == 16 * 32 * 2
    assert told["bytes_per_sample"] > 3 * told["block_saved"] > 0


def test_the_report_names_the_block(cli: Any, module: str) -> None:
    status, out, _ = cli("profile", f"{module}:build", "--input", "16x100", "--dtype", "fp32")
    assert status == 0
    assert "3 x Layer" in out
    assert "stage 3 fetches a repeated block at a time" in out
    assert "FLOPs a token " in out


def test_images_have_samples_and_no_tokens(cli: Any, module: str, tmp_path: Path) -> None:
    status, out, _ = cli("profile", f"{module}:build_images", "--input", f"{module}:images", "--out", str(tmp_path / "images.json"))
    assert status == 0
    assert "FLOPs a sample " in out
    assert "activations a sample, bf16" in out
    _, out, _ = cli("plan", "model=none", f"model.profile={tmp_path / 'images.json'}", "hardware=a100x4")
    assert out.splitlines()[0] == "the model, 290 parameters, on 4 x A100-SXM4-80GB"
    assert "samples/s/GPU" in out


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("profiled_net",), 2, "is not module:function"),
        (("profiled_net:nothing",), 2, "nothing"),
        (("no_such_module_anywhere:build",), 2, "no_such_module_anywhere"),
        (("profiled_net:broken", "--input", "16x100"), 1, "building the model failed at profiled_net.py:34: RuntimeError: no such model"),
        (("profiled_net:number", "--input", "16x100"), 1, "it returned int, not a torch.nn.Module"),
        (("profiled_net:frozen", "--input", "16x100"), 1, "no trainable parameter"),
        (
            ("profiled_net:build", "--input", "profiled_net:broken_inputs"),
            1,
            "making its inputs failed at profiled_net.py:46: KeyError: 'rows'",
        ),
        (("profiled_net:build", "--input", "profiled_net:number_of"), 1, "its inputs are int, not a tuple"),
        (("profiled_net:build", "--input", "16"), 2, "--input 16 is not LENGTHxVOCABULARY"),
        (("profiled_net:build", "--input", "0x100"), 2, "--input 0x100 is not LENGTHxVOCABULARY"),
        (("profiled_net:build", "--dtype", "fp8"), 2, "one of bf16, fp16, fp32"),
    ],
)
def test_what_cannot_be_traced(cli: Any, module: str, words: tuple[str, ...], status: int, said: str) -> None:
    found, out, err = cli("profile", *words)
    assert (found, out) == (status, "")
    assert said in err
