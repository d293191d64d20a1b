"""train.py: the model has exactly the parameters that the plan counts; the data does not depend on how it is split."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from itertools import islice, product
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from zerocfg.errors import ZerocfgError
from zerocfg.facts import ModelFacts
from zerocfg.runtime.run import Run

TRAIN = Path(__file__).parents[2] / "train.py"
DIMS: dict[str, Any] = {
    "name": "test",
    "num_hidden_layers": 2,
    "hidden_size": 24,
    "num_attention_heads": 4,
    "head_dim": 6,
    "intermediate_size": 40,
    "vocab_size": 300,
    "sequence_length": 16,
}


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("example_train", TRAIN)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def plain(function: Callable[..., Any], *args: Any) -> Any:
    return function(*args)


@pytest.mark.parametrize(
    ("mlp", "norm", "positions", "bias", "tied", "kv_heads"),
    list(product(["gelu", "swiglu"], ["layernorm", "rmsnorm"], ["learned", "rotary"], [True, False], [True, False], [4, 2])),
)
def test_parameters(example: ModuleType, mlp: str, norm: str, positions: str, bias: bool, tied: bool, kv_heads: int) -> None:
    dims = ModelFacts(**DIMS, mlp=mlp, norm=norm, positions=positions, bias=bias, tie_word_embeddings=tied, num_key_value_heads=kv_heads)
    torch.manual_seed(0)
    model = example.GPT(dims, plain)
    assert sum(p.numel() for p in model.parameters()) == dims.num_parameters
    tokens = torch.randint(300, (3, 16))
    loss = model(tokens, tokens.roll(-1, 1))
    loss.backward()
    assert abs(loss.item() - torch.tensor(300.0).log().item()) < 0.3
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for name, p in model.named_parameters() if not name.endswith("k.bias"))


def test_the_model_sees_no_later_token(example: ModuleType) -> None:
    for positions in ("learned", "rotary"):
        dims = ModelFacts(
            **DIMS, mlp="gelu", norm="layernorm", positions=positions, bias=True, tie_word_embeddings=False, num_key_value_heads=4
        )
        torch.manual_seed(0)
        model = example.GPT(dims, plain).double()
        tokens = torch.randint(300, (1, 16))
        changed = tokens.clone()
        changed[0, 9:] = 0
        targets = torch.full((1, 16), -100)  # ignored by cross_entropy, but for one
        targets[0, 8] = 5
        assert model(tokens, targets).item() == model(changed, targets).item()
        targets[0, 8], targets[0, 9] = -100, 5
        assert model(tokens, targets).item() != model(changed, targets).item()


def test_rotary_angles_depend_on_distance_alone(example: ModuleType) -> None:
    q, k = torch.randn(2, 1, 1, 1, 6, dtype=torch.float64)
    turn = example.rotation(12, 6, q)
    q, k = (example.rotate(x.expand(1, 1, 12, 6), turn)[0, 0] for x in (q, k))
    assert torch.allclose(q[3] @ k[1], q[9] @ k[7])
    assert not torch.allclose(q[3] @ k[1], q[9] @ k[8])


def test_a_global_batch_does_not_depend_on_the_split(example: ModuleType, cpu_run: Callable[..., Run]) -> None:
    """Ranks, micro batch and accumulation only cut it: the same windows in each step, each once."""

    def steps(ranks: int, micro: int, seed: int = 1) -> list[list[int]]:
        found: list[list[int]] = [[] for _ in range(3)]
        for rank in range(ranks):
            changes = {"hardware.gpus_per_node": ranks, "batch.global_batch_size": 8, "batch.micro_batch_size": micro, "train.seed": seed}
            run = cpu_run(changes, rank=rank)
            accumulation = run.plan.batch.gradient_accumulation_steps
            micros = list(islice(example.GlobalBatches(1000, run), 3 * accumulation))
            assert all(len(m) == micro for m in micros)
            for i, starts in enumerate(micros):
                found[i // accumulation] += starts
        return [sorted(step) for step in found]

    whole = steps(1, 8)
    assert steps(1, 2) == whole
    assert steps(2, 4) == whole
    assert steps(4, 1) == whole
    assert steps(1, 8, seed=2) != whole
    assert whole[0] != whole[1]


def test_windows(example: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(bytes(range(10)))
    data = example.Windows(path, 4)
    assert len(data) == 6
    inputs, targets = data[5]
    assert (inputs.tolist(), targets.tolist()) == ([5, 6, 7, 8], [6, 7, 8, 9])
    with pytest.raises(ZerocfgError, match="needs 11 at least"):
        example.Windows(path, 10)


def test_corpus(example: ModuleType, cpu_run: Callable[..., Run], tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    (folder / "b").mkdir(parents=True)
    (folder / "b" / "x.txt").write_bytes(b"second ")
    (folder / "a.md").write_bytes(b"first ")
    run = cpu_run({"train.data": str(folder)})
    path = example.corpus(run)
    assert path == run.output_dir / "corpus.bin"
    assert path.read_bytes() == b"first second "
    path.write_bytes(b"made already")
    assert example.corpus(run).read_bytes() == b"made already"
    assert example.corpus(cpu_run({"train.data": str(folder / "a.md")})) == folder / "a.md"
    with pytest.raises(ZerocfgError, match="neither a file nor a folder"):
        example.corpus(cpu_run({"train.data": str(tmp_path / "none")}))


def test_the_standard_library_is_text_enough(example: ModuleType, cpu_run: Callable[..., Run]) -> None:
    text = example.corpus(cpu_run()).read_bytes()
    assert len(text) > 5_000_000
    assert b"class OrderedDict" in text
