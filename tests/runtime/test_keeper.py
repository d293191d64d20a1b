"""Between two steps: what is saved when, how a stop ends the loop, how the next start goes on. One rank."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from tests.runtime.one_weight import SAVING, Engine, MakeRun, lines, saved, send, train
from zerocfg.diagnostics import ConfigProblems
from zerocfg.errors import Preempted
from zerocfg.runtime import keeper as keeper_module
from zerocfg.runtime.run import Run

# tensorboard's own imports
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.mark.parametrize("async_save", [False, True])
def test_by_count_and_at_the_end(cpu_run: MakeRun, async_save: bool) -> None:
    run = cpu_run({**SAVING, "checkpoint.keep_last": 0, "checkpoint.async_save": async_save})
    engine = Engine()
    own = engine.checkpoint_engine
    assert train(run, engine) == list(range(1, 9))
    assert saved(run) == [3, 6, 8]
    assert [torch.load(run.output_dir / f"checkpoints/global_step{n}/weight.pt")["weight"].item() for n in (3, 6, 8)] == [3, 6, 8]
    # DeepSpeed's parts are back in their places
    assert engine.checkpoint_engine is own
    with pytest.raises(OSError, match="nobody"):
        engine._copy_recovery_script("")


def test_only_the_last_are_kept(cpu_run: MakeRun) -> None:
    run = cpu_run({**SAVING, "checkpoint.keep_last": 1})
    train(run, Engine())
    assert saved(run) == [8]


def test_by_time(cpu_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(keeper_module, "time", SimpleNamespace(monotonic=lambda: now[0], perf_counter=lambda: now[0]))
    run = cpu_run({"checkpoint.every_minutes": 2.0, "checkpoint.keep_last": 0, "train.steps": 8})

    def later(step: int) -> None:
        now[0] += 50.0

    train(run, Engine(), later)
    # 50, 100, 150: due; again 120 seconds after that
    assert saved(run) == [3, 6, 8]


def test_nothing_is_saved_unless_asked(cpu_run: MakeRun) -> None:
    run = cpu_run({"train.steps": 3})
    before = signal.getsignal(signal.SIGUSR2)
    seen = []
    train(run, Engine(), lambda step: seen.append(signal.getsignal(signal.SIGUSR2)))
    assert seen == [before] * 3
    assert not (run.output_dir / "checkpoints").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR2, signal.SIGINT])
def test_a_signal_stops_after_the_step_and_the_next_start_goes_on(cpu_run: MakeRun, number: signal.Signals) -> None:
    straight = cpu_run({"train.steps": 8, "train.log_every": 1})
    train(straight, Engine())
    expected = lines(straight)

    run = cpu_run({**SAVING, "checkpoint.every_steps": None, "checkpoint.enabled": True})
    before = signal.getsignal(number)
    try:
        with pytest.raises(Preempted) as stopped:
            train(run, Engine(), send(number, 5))
    finally:
        signal.signal(number, before)
    end = stopped.value
    assert (end.step, end.signal, end.code) == (5, number.name, 85)
    assert Path(end.checkpoint) == run.output_dir / "checkpoints/global_step5"
    summary = json.loads((run.output_dir / "summary.json").read_text())
    assert (summary["steps"], summary["finished"]) == (5, False)

    again, engine = cpu_run({**SAVING}), Engine()
    assert train(again, engine) == [6, 7, 8]
    assert again.start_step == 5
    assert lines(again) == expected
    assert engine.weight.item() == 8
    summary = json.loads((run.output_dir / "summary.json").read_text())
    assert (summary["steps"], summary["finished"], summary["first_loss"], summary["resumed_at"]) == (8, True, 1.0, [5])


def test_a_signal_during_the_last_step_is_no_interruption(cpu_run: MakeRun) -> None:
    run = cpu_run(SAVING)
    assert train(run, Engine(), send(signal.SIGUSR2, 8))[-1] == 8
    assert saved(run)[-1] == 8


def test_steps_that_are_done_again_do_not_count_twice(cpu_run: MakeRun) -> None:
    run = cpu_run(SAVING)

    def die(step: int) -> None:
        if step == 6:
            raise KeyError("unwell")

    with pytest.raises(KeyError):
        train(run, Engine(), die)
    assert saved(run) == [3]
    with (run.output_dir / "metrics.jsonl").open("a") as file:
        file.write('{"step": 7, "lo')  # cut off
    assert [step for step, _ in lines_that_read(run)] == [1, 2, 3, 4, 5]
    train(cpu_run(SAVING), Engine())
    assert lines(run) == [(n, float(n)) for n in range(1, 9)]
    assert not (run.output_dir / "metrics.1.jsonl").exists()


def lines_that_read(run: Run) -> list[tuple[int, float]]:
    text = (run.output_dir / "metrics.jsonl").read_text().splitlines()[:-1]
    return [(r["step"], r["loss"]) for r in map(json.loads, text)]


def test_a_script_that_records_no_loss_is_resumed_too(cpu_run: MakeRun) -> None:
    for total in (4, 8):
        run = cpu_run({**SAVING, "train.steps": total})
        for step in run.steps([torch.zeros(1)], engine=Engine()):
            assert len(list(step)) == 1
    assert [loss for _, loss in lines(run)] == [None] * 8
    assert saved(run) == [6, 8]


@pytest.mark.parametrize("other_ranks", [False, True])
def test_samples_that_were_seen_are_not_seen_again_in_larger_batches(cpu_run: MakeRun, other_ranks: bool) -> None:
    def seen(run: Run) -> list[int]:
        found = []
        for step in run.steps([torch.tensor([i]) for i in range(20)], engine=Engine()):
            found += [int(batch) for batch in step]
        return found

    common = {"train.steps": 8, "checkpoint.enabled": True}
    run = cpu_run({**common, "batch.micro_batch_size": 2, "batch.global_batch_size": 4})
    assert seen(run) == list(range(16))
    if other_ranks:  # each rank's own place means nothing then
        path = run.output_dir / "checkpoints/global_step8/zerocfg.json"
        path.write_text(path.read_text().replace('"world_size": 1', '"world_size": 2'))
    # 8 steps of 4 samples: 8 micro batches of 4
    more = cpu_run({**common, "batch.micro_batch_size": 4, "batch.global_batch_size": 8, "train.steps": 10})
    assert seen(more) == [8, 9, 10, 11]


def test_a_finished_run_has_nothing_to_do(cpu_run: MakeRun) -> None:
    train(cpu_run(SAVING), Engine())
    run = cpu_run(SAVING)
    before = (run.output_dir / "metrics.jsonl").read_text()
    assert train(run, Engine()) == []
    assert (run.output_dir / "metrics.jsonl").read_text() == before
    assert json.loads((run.output_dir / "summary.json").read_text())["finished"] is True
    assert run.last_loss == 8.0
    # and goes on where more steps are asked for
    assert train(cpu_run({**SAVING, "train.steps": 10}), Engine()) == [9, 10]


def test_two_runs_do_not_save_into_one_folder(cpu_run: MakeRun) -> None:
    run = cpu_run(SAVING)
    codes = []

    def second(step: int) -> None:
        if step == 2:
            with pytest.raises(ConfigProblems) as caught:
                train(cpu_run(SAVING), Engine())
            codes.extend(d.code for d in caught.value.diagnostics)

    train(run, Engine(), second)
    assert codes == ["ZC775"]


def test_another_start_of_the_same_run_is_never_from_zero(cpu_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    never = {**SAVING, "checkpoint.resume": "never"}
    train(cpu_run(SAVING), Engine())
    assert train(cpu_run({**never, "train.steps": 4}), Engine()) == [1, 2, 3, 4]
    own = cpu_run(never).output_dir / "checkpoints"
    assert {path.name for path in own.iterdir()} >= {"global_step6.1", "global_step8.1", "global_step3", "global_step4"}
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert train(cpu_run(never), Engine()) == [5, 6, 7, 8]
