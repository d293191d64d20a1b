"""Real apps through the launcher that are stopped: by Ctrl-C, a signal, a time limit, or because their folder is in use."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.launch.small_app import Background, left_behind, run, write_app

pytestmark = pytest.mark.integration


@pytest.fixture
def app(tmp_path: Path) -> Path:
    return write_app(tmp_path)


def test_ctrl_c_stops_all_ranks_and_says_so(app: Path) -> None:
    running = Background(app, "what=sleep")
    os.killpg(running.process.pid, signal.SIGINT)  # as a terminal does: to every process of the group
    out = running.end()
    assert running.process.returncode == 130
    assert "job 0: Ctrl-C, stopping all ranks" in out
    assert f"job 0: stopped: {app}/out dir/0" in out
    assert "Traceback" not in out
    assert left_behind(app) == []


def test_more_signals_do_not_cut_the_end_short(app: Path) -> None:
    """Who presses Ctrl-C again and again still gets no traceback, and nothing stays behind."""
    running = Background(app, "what=stubborn")
    for _ in range(5):
        os.killpg(running.process.pid, signal.SIGINT)
        time.sleep(0.01)
    out = running.end()
    assert running.process.returncode == 130
    assert f"job 0: stopped: {app}/out dir/0" in out
    assert "Traceback" not in out
    assert left_behind(app) == []


def test_ctrl_c_that_ends_tee_too(app: Path) -> None:
    command = f"exec 3>&1; {sys.executable} app.py what=sleep 2>&3 | tee /dev/null"
    running = subprocess.Popen(["/bin/sh", "-c", command], cwd=app, stdout=subprocess.PIPE, text=True, start_new_session=True)
    with running, running.stdout or nullcontext() as shown:
        assert shown is not None
        while "sleeping" not in shown.readline():
            pass
        os.killpg(running.pid, signal.SIGINT)
        out = shown.read()
    assert "Traceback" not in out
    assert f"job 0: stopped: {app}/out dir/0" in out
    assert left_behind(app) == []


def test_sigterm_stops_all_ranks(app: Path) -> None:
    running = Background(app, "what=sleep")
    running.process.terminate()
    out = running.end()
    assert running.process.returncode == 143
    assert "job 0: SIGTERM, stopping all ranks" in out
    assert left_behind(app) == []


def test_a_killed_launcher_leaves_nothing_behind(app: Path) -> None:
    running = Background(app, "what=sleep")
    running.process.kill()
    running.process.wait()
    deadline = time.monotonic() + 20
    while left_behind(app) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left_behind(app) == []
    running.end()


def test_ranks_that_outlive_their_launcher_keep_the_folder(app: Path) -> None:
    """They may be saving: a second run in there would mix with theirs."""
    running = Background(app, "what=stubborn")
    running.process.kill()
    running.process.wait()
    done = run(app, "a=2")
    assert done.returncode == 1
    assert f"error[ZC706] another run is using {app}/out dir/0\n  its launcher is gone; its ranks save, or end\n" in done.stderr
    os.kill(int(running.out.partition("pid ")[2].split()[0]), signal.SIGKILL)
    deadline = time.monotonic() + 20
    while left_behind(app) and time.monotonic() < deadline:
        time.sleep(0.05)
    running.end()
    assert run(app, "a=2").returncode == 0


@pytest.mark.parametrize("what", ["what=sleep", "a=1,2 what=sleep"])
def test_a_closed_stdout_stops_all_ranks(app: Path, what: str) -> None:
    """`| head`: no signal says so to a launcher that waits."""
    command = [sys.executable, "app.py", *what.split()]
    running = subprocess.Popen(command, cwd=app, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stdout is not None
    assert running.stderr is not None
    while "sleeping" not in running.stdout.readline():
        pass
    running.stdout.close()
    with running.stderr:
        err = running.stderr.read()
    assert running.wait(40) == 141
    assert "job 0: stdout was closed, stopping all ranks\n" in err
    assert f"job 0: stopped: {app}/out dir/0\n" in err
    assert "Traceback" not in err
    assert "argv []" not in err  # what the ranks say is in their logs
    assert left_behind(app) == []


def test_the_time_limit(app: Path) -> None:
    done = run(app, "what=sleep", "hydra.launcher.timeout_min=0.03")
    assert done.returncode == 1
    assert "job 0 was stopped: time limit" in done.stderr
    assert left_behind(app) == []


def test_a_folder_in_use_is_refused(app: Path) -> None:
    running = Background(app, "what=sleep")
    try:
        done = run(app, "a=2")
        assert done.returncode == 1
        assert f"error[ZC706] another run is using {app}/out dir/0" in done.stderr
        assert "Traceback" not in done.stderr
    finally:
        running.process.terminate()
        running.end()
