"""The process beside a script's rank: log, signals, how it ended. Without torchrun."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.saved import SAVED_PLAN
from zerocfg.launch.paths import JOB_TOKEN, JobPaths
from zerocfg.launch.plain_rank import result
from zerocfg.launch.results import read_results

pytestmark = pytest.mark.integration
SCRIPT = """
import json, os, pathlib, signal, sys, time
what, *rest = sys.argv[1:]
root = pathlib.Path(os.environ["ZEROCFG_RUN_DIR"])
print("out", json.dumps([sys.argv, os.environ["ZEROCFG_DS_CONFIG"], __name__, sys.path[0]]), flush=True)
os.write(2, b"err\\n")
got = []
for number in (signal.SIGUSR1, signal.SIGTERM):
    signal.signal(number, lambda number, frame: got.append((int(number), os.getpgrp() == os.getppid())))
(root / "ready").write_text(str(os.getpid()))
if what == "exit": sys.exit(int(rest[0]))
if what == "kill": os.kill(os.getpid(), int(rest[0]))
if what == "os_exit": os._exit(0)
if what == "count":
    while not got or got[-1][0] != signal.SIGTERM: time.sleep(0.01)
    print("got", json.dumps(got), flush=True)
    sys.exit(int(rest[0]))
if what == "sleep": time.sleep(600)
"""


def eventually(probe: Callable[[], object], timeout: float = 60) -> None:
    deadline = time.monotonic() + timeout
    while not probe():
        assert time.monotonic() < deadline, f"not within {timeout} s"
        time.sleep(0.02)


class Rank:
    def __init__(self, folder: Path, *words: str, rank: int = 1) -> None:
        self.paths = JobPaths(folder / "a job's folder")
        self.paths.results.mkdir(parents=True)
        script = folder / "my script.py"
        script.write_text(SCRIPT)
        command = [sys.executable, "-m", "zerocfg.launch.plain_rank", str(script), *words]
        environ = {**os.environ, "ZEROCFG_RUN_DIR": str(self.paths.root), "RANK": str(rank), JOB_TOKEN: f"test-{os.getpid()}"}
        # as torchrun starts a rank
        self.process = subprocess.Popen(command, env=environ, cwd=folder, start_new_session=True)

    @property
    def log(self) -> str:
        return self.paths.rank_log(1).read_text()

    @property
    def script_pid(self) -> int:
        ready = self.paths.root / "ready"
        eventually(lambda: ready.exists() and ready.read_text())
        return int(ready.read_text())


def test_the_script_is_started_as_it_stands(tmp_path: Path) -> None:
    rank = Rank(tmp_path, "os_exit", "--cfg={ds_config}", "-m", "--", "it's $HOME *", "")
    assert rank.process.wait(60) == 0
    json_path = f"{rank.paths.root}/compiled/ds_config.json"
    words = [str(tmp_path / "my script.py"), "os_exit", f"--cfg={json_path}", "-m", "--", "it's $HOME *", ""]
    assert rank.log == f"out {json.dumps([words, json_path, '__main__', str(tmp_path)])}\nerr\n"
    assert read_results(rank.paths)[1].ok


@pytest.mark.parametrize(
    ("words", "status", "error", "code"),
    [
        (("exit", "3"), 3, "exit status 3", 3),
        (("kill", str(int(signal.SIGSEGV))), -signal.SIGSEGV, "ended by SIGSEGV", 139),
        (("kill", str(int(signal.SIGKILL))), -signal.SIGKILL, "ended by SIGKILL", 137),
    ],
)
def test_it_ends_as_the_script_ends_and_says_how(tmp_path: Path, words: tuple[str, ...], status: int, error: str, code: int) -> None:
    rank = Rank(tmp_path, *words)
    assert rank.process.wait(60) == status
    (found,) = read_results(rank.paths).values()
    cause = pickle.loads(found.exception)
    assert (found.rank, found.ok, found.error, cause.code) == (1, False, error, code)
    assert found.traceback == rank.log.removesuffix("\n")


def test_a_signal_reaches_the_script_once_and_one_that_was_told_to_end_has_not_failed(tmp_path: Path) -> None:
    rank = Rank(tmp_path, "count", "9")
    assert rank.script_pid
    os.killpg(rank.process.pid, signal.SIGUSR1)  # torchrun ends a rank by its group
    time.sleep(0.2)
    os.killpg(rank.process.pid, signal.SIGTERM)
    assert rank.process.wait(60) == 9
    assert rank.log.splitlines()[-1] == f"got {json.dumps([[int(number), False] for number in (signal.SIGUSR1, signal.SIGTERM)])}"
    assert read_results(rank.paths) == {}


@pytest.mark.parametrize("saved", [True, False])
def test_a_script_that_was_stopped_and_has_saved(tmp_path: Path, saved: bool) -> None:
    """run.steps ends a script with status 85."""
    rank = Rank(tmp_path, "count", "85")
    made = rank.paths.root / "checkpoints/global_step7"
    if saved:
        made.mkdir(parents=True)
        (made / "zerocfg.pt").touch()
        (made / "zerocfg.json").write_text(json.dumps({"format": 1, "step": 7, "plan": SAVED_PLAN, "files": {"zerocfg.pt": 0}}))
    assert rank.script_pid
    rank.process.send_signal(signal.SIGTERM)
    assert rank.process.wait(60) == 85
    (found,) = read_results(rank.paths).values()
    assert found.preempted is not None
    stop = (found.preempted.step, found.preempted.signal, found.preempted.checkpoint)
    assert stop == ((7, "SIGTERM", str(made)) if saved else (0, "SIGTERM", ""))
    assert (found.ok, found.error) == (False, f"stopped by SIGTERM after step {7 if saved else 0}")


def test_the_script_does_not_outlive_it(tmp_path: Path) -> None:
    rank = Rank(tmp_path, "sleep")
    pid = rank.script_pid
    rank.process.kill()
    rank.process.wait(60)
    eventually(lambda: not Path(f"/proc/{pid}").exists() or ") Z " in Path(f"/proc/{pid}/stat").read_text())


def test_the_last_lines_are_the_traceback(tmp_path: Path) -> None:
    log = tmp_path / "rank_0.log"
    log.write_bytes(b"x" * 100_000 + b"\n" + b"".join(b"line %d \xff\n" % i for i in range(40)))
    assert result(0, 1, log).traceback.splitlines() == [f"line {i} \ufffd" for i in range(20, 40)]
    assert result(0, 1, tmp_path / "none").traceback == ""
