"""Between two steps: what is saved when, what a failed save means, how a stop ends the loop. One rank, an engine that writes one file."""

from __future__ import annotations

import json
import logging
import os
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from zerocfg.diagnostics import ConfigProblems
from zerocfg.errors import Preempted
from zerocfg.runtime import keeper as keeper_module
from zerocfg.runtime.agreement import Agreement, Word
from zerocfg.runtime.checkpoint_files import survey
from zerocfg.runtime.run import Run

MakeRun = Callable[..., Run]
# tensorboard's own imports
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
SAVING = {"checkpoint.every_steps": 3, "train.steps": 8, "train.log_every": 1}


class Engine:
    """What zerocfg uses of DeepSpeed's engine, with one weight: it counts its steps."""

    def __init__(self, size: int = 1) -> None:
        self.weight = torch.zeros(size)
        self.module = torch.nn.ParameterDict({"weight": torch.nn.Parameter(torch.zeros(size), requires_grad=False)})
        self.optimizer = SimpleNamespace(param_groups=[{"lr": 0.5}])
        self.skipped_steps = 0
        self.checkpoint_engine: Any = SimpleNamespace(is_data_parallel_writer=lambda rank: rank == 0)

    def step(self) -> None:
        self.weight += 1

    def zero_optimization(self) -> bool:
        return True

    def zero_nvme_offload_optimizer(self) -> bool:
        return False

    def _copy_recovery_script(self, path: str) -> None:
        raise OSError("a copy that nobody has asked for")

    def save_checkpoint(self, folder: str, *, tag: str, client_state: Any, save_latest: bool) -> None:
        assert (client_state, save_latest) == ({}, False)
        self._copy_recovery_script(folder)
        assert not self.zero_nvme_offload_optimizer()
        self.checkpoint_engine.makedirs(f"{folder}/{tag}", exist_ok=True)
        self.checkpoint_engine.create(None)
        self.checkpoint_engine.save(state_dict={"weight": self.weight}, path=f"{folder}/{tag}/weight.pt")
        self.checkpoint_engine.commit(None)

    def load_checkpoint(self, folder: str, *, tag: str) -> tuple[str, dict[str, Any]]:
        self.weight = torch.load(Path(folder) / tag / "weight.pt")["weight"]
        return folder, {}


def train(run: Run, engine: Engine, at: Callable[[int], None] = lambda step: None) -> list[int]:
    """Steps that were done."""
    done = []
    for step in run.steps([torch.zeros(1)], engine=engine):
        for _ in step:
            engine.step()
            step.record(engine.weight[0])
        done.append(step.number)
        at(step.number)
    return done


def saved(run: Run) -> list[int]:
    return [checkpoint.step for checkpoint in survey(run.output_dir / "checkpoints")[0]]


def lines(run: Run) -> list[tuple[int, float]]:
    return [(r["step"], r["loss"]) for r in map(json.loads, (run.output_dir / "metrics.jsonl").read_text().splitlines())]


def send(number: int, step: int) -> Callable[[int], None]:
    return lambda done: os.kill(os.getpid(), number) if done == step else None


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


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """The kernel's own refusal in the middle of a file, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


class Growing(Engine):
    """The states of its later checkpoints do not fit."""

    def step(self) -> None:
        super().step()
        if self.weight[0] == 5:
            self.weight = self.weight.repeat(100_000)


@pytest.mark.parametrize("async_save", [False, True])
def test_a_checkpoint_that_cannot_be_written_stops_the_run(cpu_run: MakeRun, async_save: bool) -> None:
    run = cpu_run({**SAVING, "checkpoint.async_save": async_save})
    with files_of_at_most(200_000), pytest.raises(ConfigProblems) as caught:
        train(run, Growing())
    own = run.output_dir / "checkpoints"
    (found,) = caught.value.diagnostics
    assert found.code == "ZC774"
    assert found.message == "the checkpoint of step 6 could not be written: rank 0: File too large"
    assert found.detail[0].endswith(f"were free in {own}")
    assert found.detail[1] == f"whole: the checkpoint of step 3, {own / 'global_step3'}"
    assert sorted(p.name for p in own.iterdir()) == [".lock", "global_step3", "latest"]


@pytest.mark.parametrize("async_save", [False, True])
def test_or_the_run_goes_on(cpu_run: MakeRun, async_save: bool, caplog: pytest.LogCaptureFixture) -> None:
    run = cpu_run({**SAVING, "checkpoint.async_save": async_save, "checkpoint.on_error": "continue"})
    with files_of_at_most(200_000):
        assert train(run, Growing())[-1] == 8
    assert saved(run) == [3]
    told = [record.getMessage().splitlines()[0] for record in caplog.records if record.levelname == "WARNING"]
    assert told == [f"error[ZC774] the checkpoint of step {n} could not be written: rank 0: File too large" for n in (6, 8)]


@pytest.mark.parametrize(
    ("directory", "why"),
    [
        ("/proc/nowhere", "No such file or directory"),
        # it is there, and nothing can be written into it, whoever asks
        ("/proc/self", "No such file or directory"),
        ("{tmp}/a_file", "File exists"),
        ("{tmp}/a_file/below", "Not a directory"),
    ],
)
def test_a_folder_that_cannot_be_written_is_found_before_the_first_step(cpu_run: MakeRun, tmp_path: Path, directory: str, why: str) -> None:
    (tmp_path / "a_file").touch()
    directory = directory.format(tmp=tmp_path)
    run = cpu_run({**SAVING, "checkpoint.directory": directory})
    steps: list[int] = []
    with pytest.raises(ConfigProblems) as caught:
        train(run, Engine(), steps.append)
    assert [(d.code, d.message) for d in caught.value.diagnostics] == [
        ("ZC774", f"checkpoint.directory: {directory} cannot be written: {why}")
    ]
    assert steps == []


def flip(path: Path) -> None:
    """One byte of a file's middle, where torch.save has put a tensor."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def test_contents_that_have_changed(cpu_run: MakeRun, caplog: pytest.LogCaptureFixture) -> None:
    """Sizes are right, and torch.load would give other weights in silence: the one before is taken, and it is said."""
    run = cpu_run({**SAVING, "checkpoint.keep_last": 0})
    train(run, Engine(50_000))
    own = run.output_dir / "checkpoints"
    for step in (8, 6):
        flip(own / f"global_step{step}/weight.pt")
    assert torch.load(own / "global_step8/weight.pt")["weight"].unique().numel() == 2
    caplog.clear()
    again = cpu_run({**SAVING, "checkpoint.keep_last": 0})
    assert train(again, Engine(50_000)) == [4, 5, 6, 7, 8]
    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert told == [
        f"{own}/global_step8: weight.pt is damaged: the checksum of archive/data/0 is wrong",
        f"{own}/global_step6: weight.pt is damaged: the checksum of archive/data/0 is wrong",
    ]
    assert saved(again) == [3, 6, 8]
    # asked for by name there is no other
    flip(own / "global_step6/weight.pt")
    with pytest.raises(ConfigProblems) as caught:
        train(cpu_run({**SAVING, "checkpoint.resume": str(own / "global_step6")}), Engine(50_000))
    assert [(d.code, d.detail) for d in caught.value.diagnostics] == [
        ("ZC770", (f"{own}/global_step6: weight.pt is damaged: the checksum of archive/data/0 is wrong",))
    ]


def test_weights_of_another_model(cpu_run: MakeRun) -> None:
    """Where the config does not describe the model."""
    train(cpu_run({**SAVING, "model": {}}), Engine(4))
    other = Engine(5)
    other.module["bias"] = torch.nn.Parameter(torch.zeros(1))
    with pytest.raises(ConfigProblems) as caught:
        train(cpu_run({**SAVING, "model": {}}), other)
    assert [(d.code, d.message) for d in caught.value.diagnostics] == [
        (
            "ZC771",
            "the checkpoint of step 8 is of another model: weight has shape (4,) there and has shape (5,) in this model,"
            " and 1 more parameters differ",
        )
    ]


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


class Wire:
    """The reductions of one rank among others, without the others: what is sent comes back with what the others say."""

    def __init__(self, others: list[Word]) -> None:
        self.sent: list[Word] = []
        self._others = others

    def attach(self, agreement: Agreement) -> Agreement:
        pending: list[Word] = []

        def begin(mine: Word) -> None:
            other = self._others[len(self.sent)]
            self.sent.append(mine)
            pending.append(Word(*map(max, mine.values(), other.values())))
            agreement._pending = (None, None)

        def finish() -> Word:
            agreement._pending = None
            return pending.pop(0)

        agreement._group = object()
        agreement._begin, agreement._finish = begin, finish  # type: ignore[method-assign]
        return agreement


def test_agreement_waits_only_where_steps_are_long() -> None:
    long, short, stop = Word(step_seconds=1.0), Word(step_seconds=0.01), Word(stop=12.0, step_seconds=0.01)
    others = [short, short, stop, short, long, stop, short]
    agreement = Wire(others).attach(Agreement())
    heard = [agreement.exchange(Word(step_seconds=0.01)).stop for _ in others]
    # the first is answered at once, then each a step later; after a long step at once again
    assert heard == [0, 0, 0, 12, 0, 0, 12]
    heard_at_once = Wire([long, long, Word(stop=15.0, step_seconds=1.0)]).attach(Agreement())
    assert [heard_at_once.exchange(Word()).stop for _ in range(3)] == [0, 0, 15]
