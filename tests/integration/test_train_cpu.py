"""train.py for real: two processes on this machine's CPU, gloo, DeepSpeed's engine, from Hydra's command line to the files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from zerocfg.emit import read_compiled

pytestmark = pytest.mark.integration
TRAIN = Path(__file__).parents[2] / "train.py"
TINY = (
    "hardware=cpu",
    "precision=fp32",
    "model.num_hidden_layers=2",
    "model.hidden_size=48",
    "model.sequence_length=64",
    "model.positions=rotary",
    "model.num_key_value_heads=2",
    "batch.global_batch_size=8",
    "optimizer.lr=3e-3",
    "scheduler=warmup_lr",
    "scheduler.warmup_num_steps=5",
    "train.steps=20",
    "train.log_every=4",
)


def python(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], cwd=cwd, capture_output=True, text=True, timeout=240, check=False)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def summary(job: Path) -> dict[str, Any]:
    made: dict[str, Any] = json.loads((job / "summary.json").read_text())
    return made


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """ZeRO-3 with one micro batch, DDP with two: different engines, the same global batches. Started from another folder."""
    home = tmp_path_factory.mktemp("some where")
    for name, micro in (("zero3", 4), ("ddp", 2)):
        path = home / "conf" / "split" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# @package _global_\ndefaults: [override /parallelism: {name}]\nbatch: {{micro_batch_size: {micro}}}\n")
    jobs = [f"hydra.sweep.dir='{home}/runs'"]
    return home, python(str(TRAIN), "--config-dir", "conf", *TINY, "+split=zero3,ddp", *jobs, cwd=home)


def test_it_trains(sweep: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    home, done = sweep
    assert done.returncode == 0, done.stderr + done.stdout
    job = home / "runs" / "0"
    made = summary(job)
    assert {k: made[k] for k in ("steps", "finished", "backend", "zero_stage", "world_size", "dtype", "global_batch_size")} == {
        "steps": 20,
        "finished": True,
        "backend": "gloo",
        "zero_stage": 3,
        "world_size": 2,
        "dtype": "fp32",
        "global_batch_size": 8,
    }
    assert 5.3 < made["first_loss"] < 5.8
    assert made["last_loss"] < made["first_loss"] - 1.5
    assert made["tokens_per_s"] > 0
    assert made["peak_memory_bytes"] > 1e8
    assert f"last loss {made['last_loss']:.4f}: {job}" in done.stdout
    records = lines(job / "metrics.jsonl")
    assert [r["step"] for r in records] == [1, 4, 8, 12, 16, 20]
    assert records[-1]["loss"] == made["last_loss"]
    # the warm-up: rates rise to the peak
    assert [r["lr"] for r in records][:2] == sorted(r["lr"] for r in records[:2])
    assert records[-1]["lr"] == pytest.approx(3e-3)


def test_losses_do_not_depend_on_stage_or_split(sweep: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    home, _ = sweep
    zero3, ddp = home / "runs/0", home / "runs/1"
    assert (summary(ddp)["zero_stage"], summary(zero3)["zero_stage"]) == (0, 3)
    losses = [[r["loss"] for r in lines(job / "metrics.jsonl")] for job in (zero3, ddp)]
    assert losses[0] == pytest.approx(losses[1], rel=2e-4)


def test_one_folder_a_job(sweep: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    """No rank makes a folder or file of its own beside rank_<r>.log."""
    home, _ = sweep
    assert sorted(p.name for p in home.iterdir()) == ["conf", "runs"]
    assert sorted(p.name for p in (home / "runs").iterdir()) == ["0", "1", "multirun.yaml", "results.csv"]
    names = sorted(p.name for p in (home / "runs/0").iterdir() if not p.name.startswith("events.out.tfevents"))
    expected = [".hydra", ".zerocfg", "compiled", "corpus.bin", "corpus.lock", "metrics.jsonl", "rank_0.log", "rank_1.log"]
    assert names == [*expected, "summary.json", "torchrun", "train.log"]
    assert len(list((home / "runs/0").glob("events.out.tfevents*"))) == 1
    assert "step 20/20" in (home / "runs/0/rank_0.log").read_text()
    assert "step 20/20" in (home / "runs/0/train.log").read_text()
    assert "step" not in (home / "runs/0/rank_1.log").read_text()


def test_what_is_written_is_what_ran(sweep: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    home, _ = sweep
    stored = read_compiled(home / "runs/0/compiled")
    assert stored.deepspeed["zero_optimization"]["stage"] == 3
    batch = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
    assert [stored.deepspeed[name] for name in batch] == [8, 4, 1]
    ddp = read_compiled(home / "runs/1/compiled").deepspeed
    assert [ddp[name] for name in batch] == [8, 2, 2]
    assert "--nproc-per-node=2" in stored.torchrun
    attempts = list((home / "runs/0/torchrun").glob("*/attempt_0/*"))
    assert sorted(p.name for p in attempts) == ["0", "1"]


def test_launch_sh_runs_it_again(sweep: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    """By hand, from elsewhere; the first run's files are kept."""
    home, _ = sweep
    job = home / "runs" / "0"
    first = lines(job / "metrics.jsonl")
    again = subprocess.run([job / "compiled/launch.sh"], cwd="/", capture_output=True, text=True, timeout=240, check=False)
    assert again.returncode == 0, again.stderr
    assert "step 20/20" in again.stdout
    assert "metrics.jsonl of an earlier run is kept as metrics.1.jsonl" in again.stdout
    assert lines(job / "metrics.1.jsonl") == first
    assert [r["loss"] for r in lines(job / "metrics.jsonl")] == [r["loss"] for r in first]
    assert "step 20/20" in (job / "rank_0.log").read_text()
    assert (job / "rank_0.1.log").exists()
