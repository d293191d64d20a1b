"""Checkpoints that cannot be written, have changed, or are of another model. One rank."""

from __future__ import annotations

import logging
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from tests.runtime.one_weight import SAVING, Engine, MakeRun, saved, train
from zerocfg.diagnostics import ConfigProblems

# tensorboard's own imports
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


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
    messages = [record.getMessage().splitlines() for record in caplog.records if record.levelname == "WARNING"]
    assert [len(message) for message in messages] == [4, 1]
    assert run.unsaved is not None
    assert run.unsaved.message == "the checkpoint of step 8 could not be written: rank 0: File too large"
    assert run.unsaved.detail[1] == f"whole: the checkpoint of step 3, {run.output_dir}/checkpoints/global_step3"
    assert [message[0] for message in messages] == [
        f"warning[ZC774] the checkpoint of step {n} could not be written: rank 0: File too large" for n in (6, 8)
    ]


@pytest.mark.parametrize(("room_from", "is_lost"), [(6, False), (8, False), (9, True)])
def test_what_counts_is_the_last_one(cpu_run: MakeRun, room_from: int, is_lost: bool) -> None:
    run = cpu_run({**SAVING, "checkpoint.on_error": "continue", "checkpoint.consolidate_on_end": False})
    engine = Engine()

    def full(step: int) -> None:
        # the file system refuses the folder of the next checkpoint
        own = run.output_dir / "checkpoints"
        own.mkdir(exist_ok=True)
        for number in (3, 6, 8):
            (own / f".saving-global_step{number}").unlink(missing_ok=True)
            if number < room_from:
                (own / f".saving-global_step{number}").touch()

    train(run, engine, full)
    assert (run.unsaved is not None) is is_lost


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
        ("ZC770", (f"{own}/global_step6: weight.pt is damaged: the checksum of archive/data/0 is wrong", "whole: global_step3"))
    ]


def test_a_file_that_cannot_be_opened(cpu_run: MakeRun, caplog: pytest.LogCaptureFixture) -> None:
    """Of the right size: the one before is taken."""
    run = cpu_run({**SAVING, "checkpoint.keep_last": 0})
    train(run, Engine())
    path = run.output_dir / "checkpoints/global_step8/weight.pt"
    content = path.read_bytes()
    # a name in its table of contents, which zipfile decodes
    path.write_bytes(content[::-1].replace(b"version"[::-1], b"version"[::-1].replace(b"v", b"\xff"), 1)[::-1])
    caplog.clear()
    assert train(cpu_run({**SAVING, "checkpoint.keep_last": 0}), Engine()) == [7, 8]
    (told,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert told.startswith(f"{run.output_dir}/checkpoints/global_step8: weight.pt cannot be read: 'utf-8' codec can't decode")


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


def test_an_optimizer_of_another_kind(cpu_run: MakeRun) -> None:
    """Where the script brings its own."""
    train(cpu_run({**SAVING, "optimizer.type": None}), Engine())
    other = Engine()
    other.basic_optimizer = torch.optim.SGD(other.module.parameters(), lr=0.1)
    with pytest.raises(ConfigProblems) as caught:
        train(cpu_run({**SAVING, "optimizer.type": None}), other)
    assert [(d.code, d.message) for d in caught.value.diagnostics] == [
        ("ZC771", "the checkpoint of step 8 is of another optimizer: simplenamespace there, sgd here")
    ]
