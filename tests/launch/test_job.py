"""NodeJob: no process outlives it, whatever ends it."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from zerocfg.launch.job import NodeOutcome
from zerocfg.launch.paths import JOB_TOKEN, JobPaths
from zerocfg.launch.processes import ProcessId, end_all, with_token
from zerocfg.runtime.stopping import asked_by

# Runs a NodeJob in a process of its own, as submitit does, and prints its outcome.
RUNNER = """
import sys
from zerocfg.launch.job import NodeJob
from zerocfg.launch.processes import ProcessId
pid, started, folder, seconds, limit, *command = sys.argv[1:]
print(NodeJob(folder=folder, command=tuple(command), cwd=folder, environment={"GONE": None, "NEW": "1"},
              launcher=ProcessId(int(pid), started), shutdown_seconds=float(seconds), timeout_seconds=float(limit))())
"""
STUBBORN = "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(60)"

PARENT = f"""
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", {STUBBORN!r}], start_new_session=True)
time.sleep(60)
"""


class Runner:
    def __init__(
        self, folder: Path, *command: str, seconds: float = 5.0, limit: float = math.inf, launcher: ProcessId | None = None
    ) -> None:
        self.token = uuid.uuid4().hex
        self.paths = JobPaths(folder)
        self.paths.inner.mkdir(parents=True, exist_ok=True)
        launcher = launcher or ProcessId.own()
        env = {**os.environ, JOB_TOKEN: self.token, "GONE": "x", "SUBMITIT_X": "1", "RANK": "0", "WORLD_SIZE": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", RUNNER, str(launcher.pid), launcher.started, str(folder), str(seconds), str(limit), *command],
            stdout=subprocess.PIPE,
            text=True,
            env=env,
        )

    def outcome(self) -> NodeOutcome:
        out, _ = self.process.communicate(timeout=30)
        made = eval(out, {"NodeOutcome": NodeOutcome})
        assert isinstance(made, NodeOutcome)
        return made

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + 20
        while text not in (self.paths.starter_log.read_text() if self.paths.starter_log.exists() else ""):
            assert time.monotonic() < deadline, f"no {text!r}"
            time.sleep(0.02)


def test_status_and_environment(tmp_path: Path) -> None:
    runner = Runner(tmp_path, "/bin/sh", "-c", 'echo "$GONE|$NEW|$SUBMITIT_X|$RANK|$WORLD_SIZE|$ZEROCFG_RUN_DIR"; exit 3')
    assert runner.outcome() == NodeOutcome(3)
    assert runner.paths.starter_log.read_text() == f"|1||||{tmp_path}\n"


def test_stop_ends_the_whole_tree(tmp_path: Path) -> None:
    """A child in a session of its own that ignores SIGTERM is killed too."""
    runner = Runner(tmp_path, sys.executable, "-c", PARENT)
    runner.wait_for("ready")
    runner.process.send_signal(signal.SIGTERM)
    outcome = runner.outcome()
    assert (outcome.returncode, outcome.stopped_by, len(outcome.killed)) == (-signal.SIGTERM, "SIGTERM", 1)
    assert with_token(runner.token) == []


def test_a_process_that_ignores_the_request_is_killed(tmp_path: Path) -> None:
    runner = Runner(tmp_path, sys.executable, "-c", STUBBORN, seconds=0.5)
    runner.wait_for("ready")
    runner.process.send_signal(signal.SIGUSR2)
    assert runner.outcome() == NodeOutcome(-signal.SIGKILL, "SIGUSR2")


def test_a_time_limit_counts_from_the_start_of_what_it_runs(tmp_path: Path) -> None:
    runner = Runner(tmp_path, "/bin/sh", "-c", "echo ready; exec sleep 60", limit=0.3)
    assert runner.outcome() == NodeOutcome(-signal.SIGTERM, "time limit")
    assert asked_by(tmp_path) == "time limit"  # for the ranks, which hear a signal alone


def test_without_its_launcher_it_stops(tmp_path: Path) -> None:
    launcher = subprocess.Popen(["sleep", "60"])
    who = ProcessId(launcher.pid, Path(f"/proc/{launcher.pid}/stat").read_text().rpartition(")")[2].split()[19])
    runner = Runner(tmp_path, "/bin/sh", "-c", "echo ready; exec sleep 60", launcher=who)
    runner.wait_for("ready")
    launcher.kill()
    launcher.wait()
    assert runner.outcome() == NodeOutcome(-signal.SIGTERM, "the launcher is gone")


def test_what_it_started_dies_with_it(tmp_path: Path) -> None:
    runner = Runner(tmp_path, "/bin/sh", "-c", "echo ready; exec sleep 60")
    runner.wait_for("ready")
    runner.process.kill()
    runner.process.communicate()
    deadline = time.monotonic() + 10
    while with_token(runner.token) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert with_token(runner.token) == []


def test_end_all_waits_before_it_kills() -> None:
    token = uuid.uuid4().hex
    env = {**os.environ, JOB_TOKEN: token}
    short = subprocess.Popen(["sleep", "0.3"], env=env)
    assert end_all(token, grace=10.0) == []
    assert short.wait() == 0
    long = subprocess.Popen(["sleep", "60"], env=env)
    spared = subprocess.Popen(["sleep", "60"], env=env)
    try:
        deadline = time.monotonic() + 5
        while len(with_token(token)) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)  # until both have their environment
        assert end_all(token, but=[spared.pid], grace=0.0) == [long.pid]
        assert long.wait() == -signal.SIGKILL
        assert spared.poll() is None
    finally:
        spared.kill()
        spared.wait()
    assert end_all("") == []


def test_process_id() -> None:
    own = ProcessId.own()
    assert own.alive()
    assert not ProcessId(own.pid, "another start").alive()
    ended = subprocess.Popen(["sleep", "60"])
    who = ProcessId(ended.pid, Path(f"/proc/{ended.pid}/stat").read_text().rpartition(")")[2].split()[19])
    assert who.alive()
    ended.kill()
    deadline = time.monotonic() + 5
    while who.alive() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not who.alive()  # although nobody has waited for it yet
    ended.wait()
    assert not who.alive()


@pytest.mark.parametrize("grace", [0.0])
def test_zombies_do_not_count(grace: float) -> None:
    token = uuid.uuid4().hex
    zombie = subprocess.Popen(["true"], env={**os.environ, JOB_TOKEN: token})
    time.sleep(0.3)
    assert end_all(token, grace=grace) == []
    zombie.wait()
