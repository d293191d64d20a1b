"""What a rank's heartbeat sees of its main thread, and whom the others wait for."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

from zerocfg.runtime import heartbeat
from zerocfg.runtime.heartbeat import Beat, Heartbeat, beat_file, read_beats, seen, who_is_missing


def frame_of(*calls: tuple[str, str]) -> FrameType:
    """A stack of (file, function), outermost first, given by its innermost frame."""
    inner: Any = sys._getframe
    for file, name in reversed(calls):
        namespace: dict[str, Any] = {"inner": inner}
        exec(compile(f"def {name}():\n found = inner()\n return found", file, "exec"), namespace)
        inner = namespace[name]
    found = inner()
    assert isinstance(found, FrameType)
    return found


SCRIPT = ("/home/me/train.py", "main")
ENGINE = "/x/site-packages/deepspeed/runtime/engine.py"
C10D = "/x/site-packages/torch/distributed/distributed_c10d.py"


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ([SCRIPT], ("", "train.py:3 in main: ", "")),
        ([SCRIPT, (ENGINE, "backward")], ("backward", "train.py:3 in main: ", "")),
        (
            [SCRIPT, (ENGINE, "step"), ("/x/site-packages/deepspeed/comm/torch.py", "all_reduce"), (C10D, "all_reduce")],
            ("optimizer step", "train.py:3 in main: ", "all_reduce"),
        ),
        # of several the one that was called
        ([SCRIPT, (C10D, "all_gather_object"), (C10D, "all_gather")], ("", "train.py:3 in main: ", "all_gather_object")),
        ([SCRIPT, (f"{heartbeat._OURS}/runtime/data.py", "__next__")], ("data", "train.py:3 in main: ", "")),
        ([SCRIPT, (C10D, "init_process_group"), (C10D, "_new_process_group_helper")], ("", "train.py:3 in main: ", "init_process_group")),
        # libraries that lie elsewhere than pip puts them
        ([SCRIPT, ("/tmp/site/deepspeed/accelerator/cuda_accelerator.py", "synchronize")], ("", "train.py:3 in main: ", "")),
        # a script's own module is named, not what it calls in a library
        (
            [SCRIPT, ("/home/me/loss.py", "mse"), ("/x/site-packages/torch/nn/functional.py", "mse_loss")],
            ("", "loss.py:3 in mse: ", ""),
        ),
    ],
)
def test_where_a_rank_is(calls: list[tuple[str, str]], expected: tuple[str, str, str]) -> None:
    assert seen(frame_of(*calls)) == expected
    assert seen(None) == ("", "", "")


def test_a_frame_between_two_lines() -> None:
    """Python 3.11: f_lineno may be None."""
    code = SimpleNamespace(co_filename="/home/me/train.py", co_name="main")
    frame: Any = SimpleNamespace(f_code=code, f_lineno=None, f_back=None)
    assert seen(frame) == ("", "train.py:0 in main: ", "")


def test_a_wait_for_the_gpu_is_a_wait(tmp_path: Path) -> None:
    file = tmp_path / "loop.py"
    file.write_text("import sys\ndef main(loss):\n    return loss(sys._getframe()).item()\n")
    namespace: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), namespace)
    found: list[FrameType] = []

    class Loss:
        def __init__(self, frame: FrameType) -> None:
            found.append(frame)

        def item(self) -> tuple[str, str, str]:
            return seen(found[0])

    assert namespace["main"](Loss) == (
        "",
        "loop.py:3 in main: return loss(sys._getframe()).item()",
        "loss(sys._getframe()).item()",
    )


def test_the_file_follows_the_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "_SECONDS", 0.02)
    monkeypatch.setattr(heartbeat, "_step", 0)
    alive = Heartbeat(tmp_path, 3, 4)
    alive.start()
    (first,) = read_beats(tmp_path).values()
    assert (first.rank, first.step, first.end) == (3, 0, "")
    heartbeat.reached(7)
    deadline = time.monotonic() + 20
    while read_beats(tmp_path)[3].step != 7:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    beat = read_beats(tmp_path)[3]
    assert beat.where.startswith("test_heartbeat.py:")
    assert first.since < beat.since <= time.time()
    heartbeat.reached(8)
    alive.finish(well=False)
    assert (read_beats(tmp_path)[3].step, read_beats(tmp_path)[3].end) == (8, "failed")


def test_nothing_is_written_while_nothing_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "_SECONDS", 0.005)
    monkeypatch.setattr(heartbeat, "seen", lambda frame: ("forward", "train.py:1", ""))
    written: list[Beat] = []
    monkeypatch.setattr(Heartbeat, "_write", lambda self, beat: written.append(beat))
    alive = Heartbeat(tmp_path, 0, 1)
    alive.start()
    time.sleep(0.2)
    alive.finish(well=True)
    assert [(beat.phase, beat.end) for beat in written] == [("", ""), ("forward", ""), ("forward", "done")]


def test_a_stalled_rank_says_once_whom_it_waits_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    alive = Heartbeat(tmp_path, 0, 2)
    alive._write(Beat(rank=0, step=3, phase="backward", waits_in="all_reduce", since=time.time() - 400))
    Heartbeat(tmp_path, 1, 2)._write(Beat(rank=1, step=2, where="train.py:9 in main: sleep()", since=time.time() - 500))
    last = read_beats(tmp_path)[0]
    alive._seen -= 400
    alive._tell_stall(last)
    assert capsys.readouterr().err == ""  # how long a collective may take is not known yet
    monkeypatch.setattr(heartbeat, "_timeout", 600.0)
    alive._tell_stall(last)
    alive._tell_stall(last)
    assert capsys.readouterr().err == (
        "no progress for 400 s, a collective may take 600 s; rank 1 of 2 is missing\n"
        "  rank 1: step 2, for 500 s  train.py:9 in main: sleep()\n"
        "  rank 0: step 3, backward, waits in all_reduce, for 400 s\n"
    )


def test_a_damaged_file_and_one_of_an_earlier_restart_are_left_out(tmp_path: Path) -> None:
    for rank, attempt in ((0, 1), (1, 1), (2, 0)):
        beat_file(tmp_path, rank).write_text(f'{{"rank": {rank}, "attempt": {attempt}}}')
    beat_file(tmp_path, 1).write_text("{")
    assert list(read_beats(tmp_path)) == [0]


WAITING = {"phase": "backward", "waits_in": "all_reduce", "since": 40.0}


@pytest.mark.parametrize(
    ("beats", "timed_out", "missing", "lines"),
    [
        # one does something else
        (
            [Beat(rank=0, step=5, **WAITING), Beat(rank=1, step=5, phase="data", where="d.py:3 in read: f.read()", since=30.0)],
            [],
            [1],
            ["rank 1: step 5, data, for 70 s  d.py:3 in read: f.read()", "rank 0: step 5, backward, waits in all_reduce, for 60 s"],
        ),
        # both wait, one of them a step behind
        (
            [Beat(rank=0, step=6, **WAITING), Beat(rank=1, step=5, **WAITING)],
            [0],
            [1],
            ["rank 1: step 5, backward, waits in all_reduce, for 60 s", "rank 0: step 6, backward, waits in all_reduce, for 60 s"],
        ),
        # gone after its last step
        ([Beat(rank=0, step=6, **WAITING), Beat(rank=1, step=5, end="done")], [], [1], ["rank 1: ended after step 5"]),
        # never there
        ([Beat(rank=1, phase="joining the process group", since=1.0)], [1], [0], ["rank 0: never started"]),
        # on cuda the CPU runs ahead: what has timed out is known from elsewhere
        ([Beat(rank=0, step=5, since=99.0), Beat(rank=1, step=5, since=10.0)], [0], [1], ["rank 1: step 5, for 90 s"]),
        # all at the same place
        ([Beat(rank=0, step=5, **WAITING), Beat(rank=1, step=5, **WAITING)], [0, 1], [], []),
    ],
)
def test_who_is_missing(beats: list[Beat], timed_out: list[int], missing: list[int], lines: list[str]) -> None:
    found, said = who_is_missing({beat.rank: beat for beat in beats}, 2, frozenset(timed_out), 100.0)
    assert (found, said[: len(lines)]) == (missing, lines)
    assert len(said) == 2


def test_of_many_ranks_some_are_shown() -> None:
    beats = {rank: Beat(rank=rank, step=2 if rank < 9 else 3, **WAITING) for rank in range(512)}
    missing, lines = who_is_missing(beats, 512, now=50.0)
    assert missing == list(range(9))
    assert (lines[6], lines[-1], len(lines)) == ("and 3 more", "and 497 more that wait", 14)
    assert heartbeat.waited_for(missing, 512) == "ranks 0, 1, 2, 3, 4, 5 and 3 more of 512 are missing"
