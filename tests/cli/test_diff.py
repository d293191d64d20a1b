"""zerocfg diff: files, override sets and a mixture, by what they mean."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

A: dict[str, Any] = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_clipping": 1.0,
    "bf16": {"enabled": True},
    "zero_optimization": {"stage": 2, "reduce_bucket_size": 5e8, "cpu_offload": True},
    "optimizer": {"type": "Adam", "params": {"lr": 1e-4}},
}
SAME_AS_A: dict[str, Any] = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 1,
    "fp16": {"enabled": False, "loss_scale": 128},
    "bfloat16": {"enabled": True},
    "zero_optimization": {"stage": "2", "offload_optimizer": {"device": "cpu", "pin_memory": True}, "stage3_max_live_parameters": 5},
    "optimizer": {"type": "adamw", "params": {"lr": 0.0001, "weight_decay": 0}},
    "communication_data_type": "bf16",
    "wall_clock_breakdown": False,
}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    made = {
        "a": A,
        "same": SAME_AS_A,
        "other": {**A, "gradient_clipping": 0.5, "zero_optimization": {"stage": 3}, "train_batch_size": 16},
        "auto": {"train_batch_size": "auto", "optimizer": {"type": "AdamW", "params": {"lr": "auto"}}, "gradient_clipping": "auto"},
    }
    for name, config in made.items():
        (tmp_path / f"{name} 1.json").write_text(json.dumps(config))
    return {name: str(tmp_path / f"{name} 1.json") for name in made}


def test_what_is_written_otherwise_but_means_the_same_is_no_difference(cli: Any, files: dict[str, str]) -> None:
    status, out, err = cli("diff", files["a"], files["same"], "--world-size", "8")
    assert (status, out) == (0, "")
    assert err.endswith("no difference for the run\n")
    status, out, _ = cli("diff", files["a"], files["same"], "--json", "--world-size", "8")
    assert (status, json.loads(out)) == (0, {"deepspeed": [], "torchrun": [], "environment": []})


def test_what_changes_for_the_run(cli: Any, files: dict[str, str]) -> None:
    assert cli("diff", files["a"], files["other"], "--world-size", "4") == (
        1,
        "gradient_accumulation_steps                 1      ->  2\n"
        "gradient_clipping                           1.0    ->  0.5\n"
        "train_batch_size                            8      ->  16\n"
        "zero_optimization.offload_optimizer.device  cpu    ->  none\n"
        "zero_optimization.overlap_comm              false  ->  true\n"
        "zero_optimization.stage                     2      ->  3\n",
        "",
    )


def test_json(cli: Any, files: dict[str, str]) -> None:
    status, out, _ = cli("diff", files["other"], files["a"], "--json")
    told = json.loads(out)
    assert status == 1
    assert {"path": "zero_optimization.stage", "a": 3, "b": 2} in told["deepspeed"]
    assert {"path": "train_batch_size", "a": 16, "b": None} in told["deepspeed"]
    assert (told["torchrun"], told["environment"]) == ([], [])


def test_an_auto_is_shown_until_somebody_fills_it_in(cli: Any, files: dict[str, str], tmp_path: Path) -> None:
    filled = {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}}, "gradient_clipping": 1.0}
    (tmp_path / "filled.json").write_text(json.dumps(filled))
    status, out, err = cli("diff", files["auto"], "filled.json")
    assert (status, err) == (1, "")
    assert out.splitlines() == [
        "gradient_clipping    auto  ->  1.0",
        "optimizer.params.lr  auto  ->  0.001",
        "train_batch_size     auto  ->  8",
    ]


def test_two_override_sets_are_compared_with_their_launch(cli: Any) -> None:
    status, out, err = cli("diff", "hardware=a100x8 parallelism=zero2", """hardware=a100x4 parallelism=zero2 '+env.A="b c"'""")
    assert (status, err) == (1, "")
    assert out.splitlines() == [
        "train_batch_size             8                ->  4",
        "torchrun.nproc-per-node      8                ->  4",
        "environment.A                (not in effect)  ->  b c",
        "environment.OMP_NUM_THREADS  16               ->  12",
    ]
    assert cli("diff", "hardware=a100x8", "hardware=a100x8 parallelism=zero3")[0] == 0  # the default


def test_a_file_against_overrides_runs_on_as_many_ranks(cli: Any, files: dict[str, str]) -> None:
    overrides = (
        "hardware=a100x8 model=none parallelism=zero2 offload=optimizer optimizer.lr=1e-4 optimizer.weight_decay=0 batch.micro_batch_size=2"
    )
    assert cli("diff", files["a"], f"{overrides} parallelism.overlap_comm=false")[:2] == (0, "")
    status, out, _ = cli("diff", f"{overrides} batch.global_batch_size=32", files["a"])
    assert (status, out.splitlines()) == (
        1,
        [
            "gradient_accumulation_steps     2     ->  1",
            "train_batch_size                32    ->  16",
            "zero_optimization.overlap_comm  true  ->  false",
        ],
    )


def test_what_deepspeed_ignores_is_not_compared_but_said(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"train_batch_size": 8, "max_grad_norm": 1.0, "gradient_clipping": 1.0}')
    (tmp_path / "b.json").write_text('{"train_batch_size": 8, "gradient_clipping": 1.0}')
    status, out, err = cli("diff", "a.json", "b.json")
    assert (status, out) == (0, "")
    assert err.startswith("warning[ZC610] a.max_grad_norm=1.0 is no key of DeepSpeed: ignored in silence")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("no.json", "parallelism=zero2"), "ZC910"),
        (("parallelism=zero2", "'unclosed=1"), "ZC932"),
        (("hardware=a100x8", "hardware=a100x9"), "ZC110"),
        (("hardware=a100x8 batch.global_batch_size=9", "hardware=a100x8"), "ZC201"),
    ],
)
def test_trouble_is_status_2(cli: Any, words: tuple[str, str], code: str) -> None:
    status, out, err = cli("diff", *words)
    assert (status, out) == (2, "")
    assert f"error[{code}]" in err
    status, out, _ = cli("diff", *words, "--json")
    assert status == 2
    assert code in [problem["code"] for problem in json.loads(out)]


def test_wrong_usage(cli: Any) -> None:
    assert cli("diff", "a=1")[0] == 2
    assert cli("diff", "a=1", "b=1", "--world-size", "x")[0] == 2
