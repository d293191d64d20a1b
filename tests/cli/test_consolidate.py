"""zerocfg consolidate on checkpoints of stage 0, which need no DeepSpeed to be made; all stages: tests/integration/test_resume.py."""

from __future__ import annotations

import json
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.saved import SAVED_PLAN
from zerocfg.cli import consolidate as consolidate_module
from zerocfg.runtime.checkpoint_files import Checkpoint, commit
from zerocfg.runtime.checkpoint_save import rank_file

Cli = Callable[..., tuple[int, str, str]]
WEIGHT = torch.arange(6.0).reshape(2, 3) / 3


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """Steps 5 and 10 of a run at stage 0 in bf16; the optimizer's fp32 copy is flat."""
    made = tmp_path / "job"
    (made / "compiled").mkdir(parents=True)
    for step in (5, 10):
        draft = made / f"checkpoints/.saving-global_step{step}"
        draft.mkdir(parents=True)
        tied = (WEIGHT * step).bfloat16()
        module = {"a.weight": tied, "b.weight": tied, "calls": torch.tensor(step)}
        state = {"module": module, "optimizer": {"fp32_groups_flat": [(WEIGHT * step).flatten()]}}
        torch.save(state, draft / "mp_rank_00_model_states.pt")
        torch.save({"masters": [[("a.weight", (2, 3))]]}, draft / rank_file(0))
        commit(draft, step, {"plan": {**SAVED_PLAN, "zero": {"stage": 0}}}, keep_last=0)
    return made


def test_the_newest(cli: Cli, job: Path) -> None:
    status, out, err = cli("consolidate", "job")
    assert (status, err) == (0, "")
    target = job / "weights/model.safetensors"
    assert out == "weights of step 10: 13 elements in fp32, 56 B: job/weights/model.safetensors\n"
    weights = load_file(target)
    assert torch.equal(weights["a.weight"], WEIGHT * 10)
    # tied to it: the optimizer knows it by one name
    assert torch.equal(weights["b.weight"], WEIGHT * 10)
    assert weights["calls"].item() == 10
    record = json.loads((job / "weights/zerocfg_weights.json").read_text())
    assert record == {
        "checkpoint": str(job / "checkpoints/global_step10"),
        "step": 10,
        "dtype": "fp32",
        "file": "model.safetensors",
    }


def test_choices(cli: Cli, job: Path, tmp_path: Path) -> None:
    words = ["consolidate", "job/checkpoints", "--tag", "global_step5", "--dtype", "bf16", "--torch", "--out", "w h e r e"]
    status, out, _ = cli(*words)
    assert (status, out) == (0, "weights of step 5: 13 elements in bf16, 32 B: w h e r e/pytorch_model.bin\n")
    weights = torch.load(tmp_path / "w h e r e/pytorch_model.bin")
    assert torch.equal(weights["a.weight"], (WEIGHT * 5).bfloat16())
    # again: what this command wrote, it may replace
    assert cli(*words)[0] == 0


@pytest.mark.parametrize("words", [["."], ["job/checkpoints"], ["job/checkpoints/global_step10"], ["job", "--tag", "latest"]])
def test_a_sweep_of_one_and_the_checkpoints_themselves(cli: Cli, job: Path, words: list[str]) -> None:
    assert cli("consolidate", *words)[0] == 0
    assert (job / "weights/model.safetensors").exists()


@pytest.mark.parametrize(
    ("words", "report"),
    [
        (["nowhere"], "error[ZC770] nowhere: there is no whole checkpoint\n"),
        (
            ["job", "--tag", "global_step7"],
            "error[ZC183] --tag global_step7: there is no such folder\n  whole: global_step5, global_step10\n",
        ),
        (["job", "--dtype", "fp8"], "error[ZC183] --dtype fp8 is not fp32 or bf16\n"),
    ],
)
def test_mistakes(cli: Cli, job: Path, words: list[str], report: str) -> None:
    status, out, err = cli("consolidate", *words)
    assert (status, out) == (1, "")
    assert err.startswith(report)
    assert not (job / "weights").exists()


def test_a_file_of_another_program_stays(cli: Cli, job: Path) -> None:
    (job / "weights").mkdir()
    (job / "weights/model.safetensors").write_text("mine")
    status, _, err = cli("consolidate", "job")
    assert status == 1
    assert "error[ZC777] job/weights/model.safetensors exists, and another program wrote it" in err
    assert (job / "weights/model.safetensors").read_text() == "mine"


def test_weights_that_are_cut_over_ranks(cli: Cli, job: Path) -> None:
    path = job / "checkpoints/global_step10/zerocfg.json"
    manifest: dict[str, Any] = json.loads(path.read_text())
    manifest["plan"]["topology"]["tensor_parallel_degree"] = 2
    path.write_text(json.dumps(manifest))
    status, _, err = cli("consolidate", "job")
    assert status == 1
    assert "does not give whole weights: its weights are cut over 2 tensor-parallel ranks" in err


@pytest.mark.parametrize("option", ["--safetensors", "--torch"])
def test_a_disk_that_is_full(cli: Cli, job: Path, option: str) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, before[1]))
    try:
        status, out, err = cli("consolidate", "job", option)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (status, out) == (1, "")
    assert err.startswith("error[ZC777] job/weights/")
    assert " cannot be written: " in err
    assert " (needs 56 B, " in err
    assert list((job / "weights").iterdir()) == []


def test_files_that_are_damaged(cli: Cli, job: Path) -> None:
    """torch.load would give other weights in silence."""
    path = job / "checkpoints/global_step10/mp_rank_00_model_states.pt"
    content = path.read_bytes()
    place = content.index((WEIGHT * 10).numpy().tobytes())
    changed = bytearray(content)
    changed[place + 4] ^= 1
    path.write_bytes(changed)
    status, out, err = cli("consolidate", "job")
    assert (status, out) == (1, "")
    assert err.startswith("error[ZC776] the checkpoint of step 10 does not give whole weights: mp_rank_00_model_states.pt is damaged: ")
    path.write_bytes(bytes(len(content)))
    assert "does not give whole weights: mp_rank_00_model_states.pt cannot be read: " in cli("consolidate", "job")[2]


def test_of_a_run_that_goes_on(cli: Cli, job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It drops the checkpoint that was chosen, once a newer one is there."""
    whole = consolidate_module.consolidate

    def dropped(checkpoint: Checkpoint, out: Path, **options: Any) -> str:
        if checkpoint.step == 10:
            checkpoint.path.rename(checkpoint.path.with_name("gone"))
        return whole(checkpoint, out, **options)

    monkeypatch.setattr(consolidate_module, "consolidate", dropped)
    status, out, err = cli("consolidate", "job")
    assert (status, err) == (0, "")
    assert out.startswith("weights of step 5: ")
