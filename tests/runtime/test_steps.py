"""The loop: accumulation, the data read again, and the files it writes."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from zerocfg.diagnostics import ConfigProblems
from zerocfg.runtime.checkpoint_files import Checkpoint
from zerocfg.runtime.checkpoint_load import Resumed
from zerocfg.runtime.run import Run

MakeRun = Callable[..., Run]
# tensorboard's own imports
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def engine(lr: float = 0.5) -> Any:
    return SimpleNamespace(optimizer=SimpleNamespace(param_groups=[{"lr": lr}]), skipped_steps=1)


def batches(n: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(torch.full((2, 128), i), torch.zeros(2)) for i in range(n)]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_run(cpu_run: MakeRun) -> None:
    run = cpu_run({"train.steps": 5, "train.log_every": 2, "batch.micro_batch_size": 2, "batch.gradient_accumulation_steps": 3})
    seen = []
    made = engine()
    for step in run.steps(batches(4), engine=made):
        for first, _ in step:
            seen.append(int(first[0, 0]))
            step.record(torch.tensor(float(step.number), requires_grad=True))
        made.optimizer.param_groups[0]["lr"] = 0.5 - step.number / 10
    # 5 steps of 3 micro batches, out of 4 read over and over
    assert seen == [i % 4 for i in range(15)]
    records = lines(run.output_dir / "metrics.jsonl")
    assert [(r["step"], r["loss"], round(r["lr"], 3)) for r in records] == [(1, 1.0, 0.5), (2, 2.0, 0.4), (4, 4.0, 0.2), (5, 5.0, 0.1)]
    assert records[0]["tokens_per_s"] is None
    assert all(r["tokens_per_s"] > 0 and r["memory_bytes"] > 1e6 for r in records[1:])
    summary = json.loads((run.output_dir / "summary.json").read_text())
    expected = {
        "steps": 5,
        "planned_steps": 5,
        "first_loss": 1.0,
        "last_loss": 5.0,
        "backend": "gloo",
        "zero_stage": 3,
        "world_size": 1,
        "global_batch_size": 6,
        "skipped_steps": 1,
        "finished": True,
    }
    assert {name: summary[name] for name in expected} == expected
    assert run.last_loss == 5.0
    assert len(list(run.output_dir.glob("events.out.tfevents.*"))) == 1


def test_speed_is_counted_from_the_end_of_step_1(cpu_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    from zerocfg.runtime import records

    now = iter([0.0, 100.0, 102.0, 103.0])
    monkeypatch.setattr(records, "time", SimpleNamespace(perf_counter=lambda: next(now), time=lambda: 0.0))
    run = cpu_run({"train.steps": 4, "train.log_every": 3, "batch.micro_batch_size": 2})
    for step in run.steps(batches(1), engine=engine()):
        for _ in step:
            step.record(torch.tensor(1.0))
    # steps 2-3 took 2 s, step 4 one; 2 sequences of 128 tokens a step
    assert [r["tokens_per_s"] for r in lines(run.output_dir / "metrics.jsonl")] == [None, 256.0, 256.0]
    assert json.loads((run.output_dir / "summary.json").read_text())["tokens_per_s"] == 3 * 256 / 3


def test_tokens_of_a_model_that_is_not_described(cpu_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    from zerocfg.runtime import records

    now = iter([0.0, 0.0, 1.0])
    monkeypatch.setattr(records, "time", SimpleNamespace(perf_counter=lambda: next(now), time=lambda: 0.0))
    run = cpu_run({"model": {}, "train.steps": 2, "batch.gradient_accumulation_steps": 2})
    for step in run.steps([{"tokens": torch.zeros(3, 7)}], engine=engine()):
        for _ in step:
            pass
    (first, last) = lines(run.output_dir / "metrics.jsonl")
    assert (first["loss"], last["loss"], last["tokens_per_s"]) == (None, None, 42.0)
    assert math.isnan(run.last_loss)


def test_an_unfinished_loop_says_so(cpu_run: MakeRun) -> None:
    run = cpu_run({"train.steps": 5})

    def train() -> None:
        for step in run.steps(batches(1), engine=engine()):
            for _ in step:
                step.record(torch.tensor(1.0))
            if step.number == 4:
                raise KeyError("stop")

    with pytest.raises(KeyError):
        train()
    summary = json.loads((run.output_dir / "summary.json").read_text())
    assert (summary["steps"], summary["last_loss"], summary["finished"]) == (3, 1.0, False)


class Timed:
    """An engine whose calls take so long on the clock that everything is timed by."""

    def __init__(self) -> None:
        self.now = 0.0
        self.optimizer = SimpleNamespace(param_groups=[{"lr": 0.5}])

    def __call__(self, batch: Any) -> torch.Tensor:
        return self.forward(batch)

    def forward(self, batch: Any) -> torch.Tensor:
        self.now += 1.0
        return torch.tensor(2.0)

    def backward(self, loss: torch.Tensor) -> None:
        self.now += 2.0

    def step(self) -> None:
        self.now += 4.0

    def data(self) -> Iterator[torch.Tensor]:
        while True:
            self.now += 0.5
            yield torch.zeros(2, 128)


def train_on_its_clock(run: Run, made: Timed, monkeypatch: pytest.MonkeyPatch) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    from zerocfg.runtime import records, split, steps

    clock = SimpleNamespace(perf_counter=lambda: made.now, time=lambda: 0.0)
    for module in (records, split):
        monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(steps, "perf_counter", clock.perf_counter)
    for step in run.steps(made.data(), engine=made):
        for batch in step:
            loss = made(batch)
            made.backward(loss)
            made.step()
            step.record(loss)
    return lines(run.output_dir / "metrics.jsonl"), json.loads((run.output_dir / "summary.json").read_text())


SPLIT = ("step_seconds", "forward_seconds", "backward_seconds", "optimizer_seconds", "data_seconds")
LOOP = {"train.steps": 5, "train.log_every": 2, "batch.micro_batch_size": 2, "batch.gradient_accumulation_steps": 2}


def test_where_the_time_of_a_step_goes(cpu_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    records, summary = train_on_its_clock(cpu_run(LOOP), Timed(), monkeypatch)
    each = (15.0, 2.0, 4.0, 8.0, 1.0)
    assert [tuple(r.get(name) for name in SPLIT) for r in records] == [(None,) * 5, each, each, each]
    assert tuple(summary[name] for name in SPLIT) == each
    tokens = 4 * 128 / 15
    assert (summary["tokens_per_s"], summary["tokens_per_s_per_gpu"], summary["mfu"]) == (tokens, tokens, None)


def test_no_split_without_a_profile(cpu_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    records, summary = train_on_its_clock(cpu_run({**LOOP, "train.profile": "none"}), Timed(), monkeypatch)
    assert [tuple(name for name in SPLIT if name in r) for r in (*records[1:], summary)] == [("step_seconds",)] * 4


def test_mfu_is_6n_12lhs_over_the_data_sheet(cpu_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    run = cpu_run({**LOOP, "hardware.fp32_tflops": 1e-3, "hardware.gpus_per_node": 2})
    records, summary = train_on_its_clock(run, Timed(), monkeypatch)
    model = run.plan.model
    assert model is not None
    products = model.num_hidden_layers * model.block_parameters + model.embedding_parameters
    attention = 12 * model.num_hidden_layers * model.hidden_size * model.sequence_length
    flops = (6 * products + attention) * 4 * 128
    assert records[-1]["mfu"] == pytest.approx(flops / 15 / 1e9, rel=0.01)
    assert summary["mfu"] == records[-1]["mfu"]
    assert summary["tokens_per_s_per_gpu"] == summary["tokens_per_s"] / 2
    monkeypatch.setattr("zerocfg.runtime.records.step_flops", lambda plan: 0.0)
    assert train_on_its_clock(run, Timed(), monkeypatch)[1]["mfu"] is None


def test_a_resumed_run_adds_up_what_was_before(cpu_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    run, made = cpu_run({**LOOP, "train.steps": 6, "train.log_every": 1}), Timed()
    before = {
        "seconds": 20.0,
        "warm_tokens": 1000.0,
        "warm_seconds": 10.0,
        "warm_done": 2,
        "warm_split": {"forward": 8.0, "optimizer": 1.0},
        "warm_steps": 2,
        "starts": [0],
        "memory_by_rank": [2**60],
        "summary": {"first_loss": 9.0, "communication_share": 0.5, "profile_trace": "profile/steps_3_to_5.json"},
    }
    run._resumed = (
        made,
        Resumed(checkpoint=Checkpoint(path=run.output_dir, step=3, manifest={"recorded": before, "plan": asdict(run.plan)})),
    )
    records, summary = train_on_its_clock(run, made, monkeypatch)
    assert [(r["step"], r["step_seconds"]) for r in records] == [(4, None), (5, 15.0), (6, 15.0)]
    expected = {
        # two steps before, two after the first one of this start
        "tokens_per_s": (1000 + 2 * 512) / (10 + 2 * 15),
        "step_seconds": (10 + 2 * 15) / 4,
        "forward_seconds": (8 + 2 * 2) / 4,
        "optimizer_seconds": (1 + 2 * 8) / 4,
        "backward_seconds": 2 * 4 / 4,
        "first_loss": 9.0,
        "peak_memory_bytes": 2**60,
        "communication_share": 0.5,
        "profile_trace": "profile/steps_3_to_5.json",
        "resumed_at": [3],
    }
    assert {name: summary[name] for name in expected} == expected


def test_other_ranks_write_nothing(cpu_run: MakeRun) -> None:
    run = cpu_run({"train.steps": 2, "hardware.gpus_per_node": 2}, rank=1)
    for step in run.steps(batches(1), engine=engine()):
        for _ in step:
            step.record(torch.tensor(1.0))
    assert [p.name for p in run.output_dir.iterdir()] == ["compiled"]


def test_an_earlier_runs_files_are_kept(cpu_run: MakeRun) -> None:
    run = cpu_run({"train.steps": 1})
    for loss in (1.0, 2.0):
        for step in run.steps(batches(1), engine=engine()):
            for _ in step:
                step.record(torch.tensor(loss))
    assert lines(run.output_dir / "metrics.1.jsonl")[0]["loss"] == 1.0
    assert lines(run.output_dir / "metrics.jsonl")[0]["loss"] == 2.0
    assert json.loads((run.output_dir / "summary.1.json").read_text())["last_loss"] == 1.0


def code_of(call: Callable[[], object]) -> str:
    with pytest.raises(ConfigProblems) as caught:
        call()
    (found,) = caught.value.diagnostics
    return found.code


def test_unused_micro_batches_are_an_error(cpu_run: MakeRun) -> None:
    def train() -> None:
        run = cpu_run({"batch.gradient_accumulation_steps": 2})
        for step in run.steps(batches(1), engine=engine()):
            for _ in step:
                break

    assert code_of(train) == "ZC783"


def test_data_that_ends_is_an_error(cpu_run: MakeRun) -> None:
    def once() -> Iterator[tuple[torch.Tensor]]:
        yield (torch.zeros(1),)

    def train(data: Any) -> None:
        for step in cpu_run({"train.steps": 3}).steps(data, engine=engine()):
            for _ in step:
                step.record(torch.tensor(1.0))

    assert code_of(lambda: train(once())) == "ZC784"
    assert code_of(lambda: train([])) == "ZC784"
