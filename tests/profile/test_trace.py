from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from tests.models import GPT2, LLAMA3_8B
from zerocfg.facts import ModelFacts
from zerocfg.memory import ActivationTrace, closed_form, parameters_of
from zerocfg.profile import causal_lm_inputs, trace_model
from zerocfg.profile.failure import CannotTrace
from zerocfg.profile.live import live_bytes

ROOT = Path(__file__).parents[2]
GPT = replace(GPT2, num_hidden_layers=3)
LLAMA = replace(LLAMA3_8B, num_hidden_layers=3, hidden_size=2048, head_dim=64, intermediate_size=8192, sequence_length=2048)
FIELDS = (
    "block_saved",
    "block_input",
    "block_backward",
    "outside_saved",
    "loss_forward",
    "loss_saved",
    "loss_backward",
    "head_backward",
    "flops_per_token",
)


@pytest.fixture(scope="module")
def example() -> Any:
    spec = importlib.util.spec_from_file_location("train_example", ROOT / "train.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def traced(example: Any, model: ModelFacts, dtype: str) -> ActivationTrace:
    inputs = causal_lm_inputs(model.sequence_length, model.vocab_size)
    return trace_model(lambda: example.GPT(model, lambda function, *args: function(*args)), inputs, dtype=dtype)


@pytest.mark.parametrize("model", [GPT, LLAMA, replace(LLAMA, mlp="gelu", tie_word_embeddings=True)], ids=lambda m: f"{m.name}-{m.mlp}")
@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_the_closed_form_agrees_with_the_traced_example(example: Any, model: ModelFacts, dtype: str) -> None:
    found, formula = traced(example, model, dtype), closed_form(model, dtype)
    assert {name: getattr(formula, name) for name in FIELDS} == pytest.approx({name: getattr(found, name) for name in FIELDS}, rel=0.05)
    assert found.kept(4, checkpointing=False) == pytest.approx(formula.kept(4, checkpointing=False), rel=0.001)
    assert (found.tokens, found.num_blocks, found.block_classes) == (model.sequence_length, 3, ("Block",))


@pytest.mark.parametrize("model", [GPT, LLAMA], ids=lambda m: m.name)
def test_the_operations_of_the_dims_are_those_of_the_trace(example: Any, model: ModelFacts) -> None:
    """FLOPs to a part in a thousand; bytes and launches, which the closed form takes from a kernel profile on H200, roughly."""
    found, formula = traced(example, model, "bf16"), closed_form(model, "bf16")
    for part, traffic in (("blocks", 0.1), ("outside", 0.3)):
        ours, theirs = getattr(formula, part), getattr(found, part)
        for name in ("matmul_flops", "attention_flops", "forward_flops"):
            assert getattr(ours, name) == pytest.approx(getattr(theirs, name), rel=0.002), (part, name)
        assert ours.traffic_bytes == pytest.approx(theirs.traffic_bytes, rel=traffic), part
    assert formula.blocks.forward_launches == pytest.approx(found.blocks.forward_launches, rel=0.1)
    assert formula.blocks.launches == pytest.approx(found.blocks.launches, rel=0.35)


@pytest.mark.parametrize("model", [GPT, LLAMA], ids=lambda m: m.name)
def test_the_parameters_are_those_of_the_dims(example: Any, model: ModelFacts) -> None:
    found = traced(example, model, "bf16").parameters
    assert found is not None
    assert found == parameters_of(model)


class Adapter(nn.Module):
    """A frozen linear layer with a low-rank one beside it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.frozen = nn.Linear(width, width, bias=False).requires_grad_(False)
        self.down, self.up = nn.Linear(width, 8, bias=False), nn.Linear(8, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.frozen(x) + self.up(self.down(x))


class Regression(nn.Module):
    """Named inputs, an output with a loss, and layers that are not a ModuleList's."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(Adapter(64) for _ in range(4)))
        self.head = nn.Linear(64, 1)

    def forward(self, values: torch.Tensor, wanted: torch.Tensor) -> Any:
        return SimpleNamespace(loss=F.mse_loss(self.head(self.layers(values)).squeeze(-1), wanted))


def test_frozen_weights_keep_no_input() -> None:
    found = trace_model(Regression, lambda n: {"values": torch.zeros(n, 10, 64), "wanted": torch.zeros(n, 10)}, dtype="fp32")
    assert found.parameters is not None
    assert (found.parameters.num_frozen, found.parameters.num_trainable) == (4 * 64 * 64, 4 * 2 * 8 * 64 + 65)
    # a block keeps its output, the next one's input, and the eight numbers between the low-rank layers
    assert found.block_saved == 4 * 10 * (64 + 8)
    assert found.block_classes == ("Adapter",)
    # the frozen layer's product and the gradient of its input; down and up threefold; the first block's input needs no gradient
    product, low_rank = 2 * 64 * 64, 2 * 64 * 8
    assert found.flops_per_token == 4 * (2 * product + 3 * 2 * low_rank) - product - low_rank + 3 * 2 * 64


class Dropout(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.dropout(self.linear(x), 0.1).sum()


def test_a_model_without_repeated_blocks_and_dropouts_mask() -> None:
    found = trace_model(Dropout, lambda n: (torch.zeros(n, 10, 64),), dtype="bf16")
    # the input and a mask of bytes
    assert found.outside_saved == 10 * 64 * (2 + 1)
    assert (found.num_blocks, found.block_saved, found.block_classes) == (1, 0, ())


def test_an_output_that_is_no_loss() -> None:
    with pytest.raises(CannotTrace, match="not a loss"):
        trace_model(lambda: nn.Linear(4, 4), lambda n: (torch.zeros(n, 4),), dtype="fp32")


class LooksAtValues(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * float(x.sum())


def test_a_model_that_looks_at_values() -> None:
    with pytest.raises(CannotTrace, match=r"without data failed at test_trace\.py:\d+: it asks for the values of a tensor"):
        trace_model(LooksAtValues, lambda n: (torch.zeros(n, 4),), dtype="fp32")
    # what was replaced for the trace is back
    assert F.dropout.__module__ == "torch.nn.functional"
    assert torch.get_default_dtype() is torch.float32


def test_a_model_that_asks_for_cuda() -> None:
    def build() -> nn.Module:
        raise AssertionError("Torch not compiled with CUDA enabled")

    with pytest.raises(CannotTrace, match=r"building the model failed at .* it asks for CUDA by itself"):
        trace_model(build, lambda n: (torch.zeros(n, 4),), dtype="fp32")
    assert torch.get_default_dtype() is torch.float32


class Recomputes(nn.Module):
    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.first, self.second, self.reentrant = nn.Linear(4, 4), nn.Linear(4, 4), reentrant

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        again: torch.Tensor = checkpoint(self.second, self.first(x), use_reentrant=self.reentrant)
        return again.sum()


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_model_that_recomputes_by_itself(reentrant: bool) -> None:
    with pytest.raises(CannotTrace, match="recomputes Linear in the backward pass by itself"):
        trace_model(lambda: Recomputes(reentrant), lambda n: (torch.zeros(n, 4),), dtype="fp32")


@pytest.mark.parametrize(
    ("shape", "kind", "tokens"),
    [((3, 8, 8), torch.float32, 1), ((7,), torch.float32, 1), ((7,), torch.int64, 7), ((7, 5), torch.float32, 7), ((), torch.int64, 1)],
)
def test_tokens_of_a_sample(shape: tuple[int, ...], kind: torch.dtype, tokens: int) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (self.weight * x).sum()

    assert trace_model(Net, lambda n: (torch.zeros(n, *shape, dtype=kind),), dtype="fp32").tokens == tokens


def test_a_shared_embedding_behind_another_parameter() -> None:
    class Net(nn.Module):
        def __init__(self, tied: bool) -> None:
            super().__init__()
            self.positions = nn.Parameter(torch.zeros(16, 8))
            self.embed = nn.Embedding(100, 8)
            self.blocks = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))
            self.head = nn.Linear(8, 100, bias=False)
            if tied:
                self.head.weight = self.embed.weight

        def forward(self, x: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
            hidden = self.embed(x) + self.positions
            for block in self.blocks:
                hidden = block(hidden)
            return F.cross_entropy(self.head(hidden).flatten(0, 1), targets.flatten())

    for tied in (True, False):
        parameters = trace_model(lambda tied=tied: Net(tied), causal_lm_inputs(16, 100), dtype="fp32").parameters  # type: ignore[misc]
        assert parameters is not None
        assert (parameters.is_tied, parameters.head_numel) == (tied, 800)


def test_live_bytes_follow_storages() -> None:
    live = live_bytes()
    with live:
        made = torch.zeros(1000)
        view = made[10:20]
        assert live.now == 4000
        del made
        assert live.now == 4000
        del view
        assert live.now == 0
        assert live.peak == 4000
        live.restart()
        assert live.peak == 0
        kept = torch.zeros(10)
        live.count([kept])
        assert live.now == 40
