"""Which job starts next, without starting any: the order is what counts."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hydra.core.utils import JobReturn, JobStatus

from tests.saved import SAVED_PLAN
from zerocfg.launch.paths import JobPaths
from zerocfg.launch.pool import Device, Lease, Pool, cores
from zerocfg.launch.queue import LocalQueue
from zerocfg.launch.turns import Line
from zerocfg.runtime.checkpoint_files import commit


def queue(tmp_path: Path, widths: list[int], gpus: str = "ab") -> Any:
    made = LocalQueue.__new__(LocalQueue)
    devices = [Device(str(index), name) for index, name in enumerate(gpus)]
    made._pools = {"gpu": Pool("gpu", devices, tmp_path), "core": Pool("core", cores(2), tmp_path)}
    jobs = [
        SimpleNamespace(number=n, run=SimpleNamespace(resources=SimpleNamespace(gpus_per_node=width, cpus_per_node=1)))
        for n, width in enumerate(widths)
    ]
    made._waiting, made._overtaken = deque(jobs), 0
    return made


def test_narrow_jobs_run_side_by_side_and_the_wide_one_is_not_starved(tmp_path: Path) -> None:
    waiting = queue(tmp_path, [1, 2, 1, 2, 1, 1, 1])
    running: dict[int, Lease] = {}
    order: list[list[int]] = []
    try:
        while waiting._waiting or running:
            while waiting._waiting and (found := waiting._next()) is not None:
                running[found[0].number] = found[1]
            order.append(sorted(running))
            assert running, "nothing fits, and nothing runs"
            running.pop(min(running)).close()
    finally:
        for lease in running.values():
            lease.close()
        for pool in waiting._pools.values():
            pool.give_up()
    # 1 (wide) is overtaken by 2 and 4, no more; then what comes free is kept for it
    assert order[:4] == [[0, 2], [2, 4], [4], [1]]
    assert [3] in order
    assert sorted({number for together in order for number in together}) == list(range(7))


def together(sweeps: dict[str, Any]) -> list[str]:
    """Let several launchers look in turns; in each round the job that runs longest ends. The jobs in the order of their starts."""
    running: list[tuple[str, Lease]] = []
    started: list[str] = []
    try:
        for _ in range(200):
            for name, sweep in sweeps.items():
                while sweep._waiting and (found := sweep._next()) is not None:
                    started.append(f"{name}{found[0].number}")
                    running.append((started[-1], found[1]))
            held = [device.identity for _, lease in running for device in lease.devices]
            assert len(held) == len(set(held)), "a GPU is used twice"
            if not running and not any(sweep._waiting for sweep in sweeps.values()):
                return started
            assert running, f"nothing runs, and these wait: {[n for n, s in sweeps.items() if s._waiting]}"
            running.pop(0)[1].close()
        raise AssertionError(f"no end: {started}")
    finally:
        for _, lease in running:
            lease.close()
        for sweep in sweeps.values():
            for pool in sweep._pools.values():
                pool.give_up()


def test_two_sweeps_take_turns(tmp_path: Path) -> None:
    """A sweep of wide jobs does not keep another's narrow ones waiting until its end, nor the other way round."""
    started = together({"wide": queue(tmp_path, [2] * 6), "narrow": queue(tmp_path, [1] * 12)})
    assert started.index("narrow0") < started.index("wide2")
    assert started.index("wide3") < started.index("narrow11")
    assert len(started) == 18


def test_two_sweeps_of_wide_jobs_never_wait_for_each_others_half(tmp_path: Path) -> None:
    started = together({"a": queue(tmp_path, [2, 1, 2, 1, 2]), "b": queue(tmp_path, [1, 2, 2, 1, 2])})
    assert sorted(started) == [f"{name}{number}" for name in "ab" for number in range(5)]


def test_a_sweep_on_other_gpus_does_not_wait_in_line(tmp_path: Path) -> None:
    first, second = queue(tmp_path, [2, 2]), queue(tmp_path, [2, 2], gpus="cd")
    held = first._next()[1]
    assert first._next() is None  # waits, and is the first in the line
    other = second._next()
    assert other is not None
    for lease in (held, other[1]):
        lease.close()
    for sweep in (first, second):
        sweep._pools["gpu"].give_up()


def test_the_place_of_a_launcher_that_was_killed_is_free(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path; from zerocfg.launch.turns import Line\n"
        "line = Line(Path(sys.argv[1]), 'gpu', frozenset('ab')); print(line.my_turn()); os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = subprocess.run([sys.executable, "-u", "-c", code, tmp_path], capture_output=True, text=True, check=False)
    assert (killed.returncode, killed.stdout) == (-signal.SIGKILL, "True\n")
    assert len(list(tmp_path.glob("*.ticket"))) == 1
    line = Line(tmp_path, "gpu", frozenset("b"))
    assert line.my_turn()
    line.leave()
    assert list(tmp_path.glob("*.ticket")) == []


def test_a_job_that_was_in_its_last_step_is_done(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    done = JobReturn()
    done.status, done.return_value = JobStatus.COMPLETED, 1.0
    job: Any = SimpleNamespace(number=3, run=None, overrides=("a=1",))
    calls = {"ask_to_stop": lambda how: None, "done": lambda: True, "overdue": False, "finish": lambda shown: done}
    running = SimpleNamespace(job=job, paths=JobPaths(tmp_path), seconds=2.0, **calls)
    made: Any = LocalQueue.__new__(LocalQueue)
    made.__dict__ |= {"_waiting": deque(), "_running": [running], "stopped": set(), "_options": SimpleNamespace(poll_seconds=0)}
    made.__dict__ |= {"returns": {}, "_many": False, "_board": SimpleNamespace(update=lambda *_: None, shows_logs=True)}
    with caplog.at_level("INFO"):
        assert made._stop_all("SIGTERM", [15])
    assert caplog.messages[-1] == f"job 3: done in 2 s: {tmp_path}  [a=1]"
    assert (made.returns, made.stopped) == ({3: done}, set())


def test_a_job_that_could_not_save_any_more_says_what_it_saved_before(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Ctrl-C twice, or a save that takes too long."""
    draft = tmp_path / "checkpoints/.saving-global_step5"
    draft.mkdir(parents=True)
    (draft / "zerocfg.pt").touch()
    commit(draft, 5, {"plan": SAVED_PLAN}, keep_last=0)
    saving = SimpleNamespace(enabled=True, resume="auto", directory="checkpoints")
    sweep = SimpleNamespace(hydra=SimpleNamespace(sweep=SimpleNamespace(dir="out")))
    run = SimpleNamespace(plan=SimpleNamespace(checkpoint=saving))
    job: Any = SimpleNamespace(number=3, run=run, config=sweep, folder=tmp_path)

    def nothing(*_: object) -> bool:
        return True

    calls = dict.fromkeys(("ask_to_stop", "overdue", "kill", "release"), nothing) | {"done": lambda: False}
    running = SimpleNamespace(job=job, paths=JobPaths(tmp_path), shutdown_seconds=1.0, **calls)
    made: Any = LocalQueue.__new__(LocalQueue)
    made.__dict__ |= {"_waiting": deque(), "_running": [running], "stopped": set(), "_options": SimpleNamespace(poll_seconds=0)}
    made._board = SimpleNamespace(update=nothing)
    with caplog.at_level("INFO"):
        made._stop_all("Ctrl-C", [2])
    assert caplog.messages[-1] == (
        f"job 3: stopped: {tmp_path}\n  checkpoint: {tmp_path}/checkpoints/global_step5\n  go on: the same command with hydra.sweep.dir=out"
    )
