"""Which run a process belongs to, and what the engine must agree with."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import zerocfg
from zerocfg.compiler import compile_run
from zerocfg.diagnostics import ConfigProblems
from zerocfg.emit import COMPILED, write_compiled
from zerocfg.runtime import current
from zerocfg.runtime.engine import compare, promised
from zerocfg.runtime.run import Run

MakeRun = Callable[..., Run]


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("ZEROCFG_RUN_DIR", "RANK", "LOCAL_RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    current._current.clear()
    yield
    current._current.clear()


def codes(call: Callable[[], object]) -> list[tuple[str, str]]:
    with pytest.raises(ConfigProblems) as caught:
        call()
    return [(d.code, d.message) for d in caught.value.diagnostics]


def test_in_a_rank(tmp_path: Path, container: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = compile_run(container({"parallelism.tensor_parallel_degree": 2}))
    write_compiled(compiled, tmp_path / COMPILED)
    for name, value in {"ZEROCFG_RUN_DIR": str(tmp_path), "RANK": "5", "LOCAL_RANK": "5", "WORLD_SIZE": "8"}.items():
        monkeypatch.setenv(name, value)
    run = zerocfg.current_run()
    assert run is zerocfg.current_run()
    assert (run.rank, run.local_rank, run.world_size, run.output_dir) == (5, 5, 8, tmp_path)
    assert (run.data_parallel_rank, run.data_parallel_size) == (2, 4)
    assert run.plan == compiled.plan
    assert run.plan.model is not None
    assert run.deepspeed_config == compiled.deepspeed
    run.deepspeed_config["zero_optimization"]["stage"] = 1
    assert run.deepspeed_config == compiled.deepspeed


def test_a_script_of_its_own_whose_last_checkpoint_is_not_there(cpu_run: MakeRun) -> None:
    """It does what follows the loop, and ends as failed after all exit handlers of its own."""
    script = """
import atexit, zerocfg
from zerocfg.diagnostics import Diagnostic
run = zerocfg.current_run()
run.unsaved = Diagnostic(code="ZC774", message="the checkpoint of step 8 could not be written: no space")
atexit.register(print, "the script's own")
print("after the loop")
"""
    environment = {**os.environ, "ZEROCFG_RUN_DIR": str(cpu_run().output_dir)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "after the loop\nthe script's own\n")
    assert done.stderr == "error[ZC774] the checkpoint of step 8 could not be written: no space\n\n1 error\n"


def test_an_app_without_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZEROCFG_RUN_DIR", str(tmp_path))
    ((code, message),) = codes(zerocfg.current_run)
    assert code == "ZC780"
    assert str(tmp_path) in message


@pytest.mark.parametrize("name", ["zerocfg", None])
def test_one_process_of_an_app_with_groups_or_without(tmp_path: Path, name: str | None) -> None:
    """Without, it is told what its config lacks, not of overrides that nobody wrote."""
    (tmp_path / "app.py").write_text(
        f"import hydra, zerocfg\n@hydra.main(version_base=None, config_path=None, config_name={name!r})\n"
        "def main(cfg): print(zerocfg.current_run().world_size)\nmain()\n"
    )
    command = [sys.executable, "app.py", "++hydra.mode=RUN"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    if name is not None:
        assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
        return
    assert "error[ZC780] there is no current run: this app's config has none of zerocfg's groups" in done.stderr
    assert "  try: `- zerocfg` as the first entry of its defaults list\n" in done.stderr
    assert "gpus_per_node" not in done.stderr


def test_nowhere() -> None:
    ((code, message),) = codes(zerocfg.current_run)
    assert code == "ZC780"
    assert "not started by zerocfg" in message


def test_torchrun_without_zerocfg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    ((code, message),) = codes(zerocfg.current_run)
    assert code == "ZC780"
    assert "each would compose a config of its own" in message


def test_every_difference_of_the_engine_is_told(cpu_run: MakeRun) -> None:
    wanted = promised(cpu_run({"hardware.gpus_per_node": 2, "batch.global_batch_size": 8}))
    compare(wanted, dict(wanted))
    found = codes(lambda: compare(wanted, {**wanted, "zero_optimization.stage": 0, "train_batch_size": 4}))
    assert found == [
        ("ZC781", "train_batch_size: the plan says 8, the engine has 4"),
        ("ZC781", "zero_optimization.stage: the plan says 3, the engine has 0"),
    ]
    assert wanted == {
        "zero_optimization.stage": 3,
        "train_micro_batch_size_per_gpu": wanted["train_micro_batch_size_per_gpu"],
        "gradient_accumulation_steps": wanted["gradient_accumulation_steps"],
        "train_batch_size": 8,
        "dtype of the weights": "fp32",
        "gradient_clipping": 1.0,
        "zero_optimization.offload_optimizer.device": "none",
        "zero_optimization.offload_param.device": "none",
        "backend": "gloo",
        "world size": 2,
        "optimizer.type": "adam",
        "optimizer runs on": "cpu",
    }


def test_what_the_script_brings_is_not_compared(cpu_run: MakeRun) -> None:
    assert "optimizer.type" not in promised(cpu_run(), own_optimizer=True)
    tensor_parallel = cpu_run({"hardware.gpus_per_node": 2, "parallelism.tensor_parallel_degree": 2, "parallelism.stage": 1})
    assert "train_batch_size" not in promised(tensor_parallel)


def test_checkpoint_is_a_plain_call_when_off(cpu_run: MakeRun) -> None:
    assert cpu_run().checkpoint(lambda a, b: a + b, 1, 2) == 3


def test_a_checkpointed_input_goes_with_the_backward_pass() -> None:
    """The loss, which scripts keep until the next one, holds the graph; the graph holds no activations then."""
    import weakref

    import torch

    from zerocfg.runtime.engine import checkpoint

    given = torch.zeros(2, 4, requires_grad=True)
    hidden = given * 1
    loss = checkpoint(lambda x, none: torch.sin(x), (hidden, None)).sum()
    kept = weakref.ref(hidden)
    del hidden
    assert kept() is not None
    loss.backward()
    assert kept() is None
    assert given.grad is not None
    assert given.grad.tolist() == [[1.0] * 4] * 2


def test_optimizer_families() -> None:
    from zerocfg.runtime.engine import _device, family

    names = ["FusedAdam", "DeepSpeedCPUAdam", "AdamW", "MuonWithAuxAdam", "DeepSpeedCPUAdagrad", "FusedLion", "FusedLamb", "SGD"]
    assert [family(n) for n in names] == ["adam", "adam", "adam", "muon", "adagrad", "lion", "lamb", "sgd"]
    assert [_device(None), _device(SimpleNamespace(device=SimpleNamespace(value="cpu")))] == ["none", "cpu"]
