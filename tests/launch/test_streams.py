"""Each rank's words end in its own file, whole."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from zerocfg.launch.follow import Tail
from zerocfg.launch.streams import without_files

PROGRAM = """
import os, signal, sys
from pathlib import Path
from zerocfg.launch.streams import capture
finish = capture(Path(sys.argv[1]), console=sys.argv[2] == "console")
print("from python: \\N{SNOWMAN}")
os.write(1, b"from C\\n")
print("to stderr", file=sys.stderr)
print("no newline", end="")
if sys.argv[3] == "crash":
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)
finish()
"""
WORDS = "from python: \N{SNOWMAN}\nfrom C\nto stderr\nno newline"


@pytest.mark.parametrize("end", ["end", "crash"])
@pytest.mark.parametrize("console", ["console", "quiet"])
def test_capture(tmp_path: Path, console: str, end: str) -> None:
    log = tmp_path / "rank 0.log"
    log.write_text("earlier\n")
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-c", PROGRAM, log, console, end], capture_output=True, check=False, env=env)
    assert done.returncode == (-signal.SIGKILL if end == "crash" else 0)
    assert log.read_text(encoding="utf-8") == "earlier\n" + WORDS
    assert done.stdout.decode() == (WORDS if console == "console" else "")
    assert done.stderr == b""


def test_capture_after_output_to_a_file(tmp_path: Path) -> None:
    """torchrun gives each rank a file as stdout, and something may have been written there before."""
    program = "print('early', flush=True)\n" + PROGRAM
    with (tmp_path / "stdout.log").open("wb") as out:
        subprocess.run([sys.executable, "-c", program, tmp_path / "log", "console", "end"], stdout=out, check=True)
    assert (tmp_path / "stdout.log").read_text(encoding="utf-8") == "early\n" + WORDS
    assert (tmp_path / "log").read_text(encoding="utf-8") == WORDS


def test_only_rank_0_logs_to_the_jobs_file() -> None:
    both = {
        "version": 1,
        "handlers": {
            "console": {"class": "logging.StreamHandler", "formatter": "f", "stream": "ext://sys.stdout"},
            "file": {"class": "logging.FileHandler", "formatter": "f", "level": "DEBUG", "filename": "/job/train.log"},
        },
        "root": {"level": "INFO", "handlers": ["console", "file"]},
        "loggers": {"quiet": {"handlers": ["file"]}},
    }
    changed = without_files(both)
    assert changed["root"] == {"level": "INFO", "handlers": ["console"]}
    assert changed["loggers"] == {"quiet": {"handlers": ["file"]}}
    assert changed["handlers"]["file"] == {
        "class": "logging.StreamHandler",
        "stream": "ext://sys.stdout",
        "formatter": "f",
        "level": "DEBUG",
    }
    assert both["handlers"]["file"]["filename"] == "/job/train.log"  # type: ignore[index]


def test_tail_reads_on_and_never_splits_a_character(tmp_path: Path) -> None:
    path = tmp_path / "log"
    tail = Tail(path)
    assert tail.read() == ""
    snowman = "\N{SNOWMAN}".encode()
    for piece, text in ((b"a" + snowman[:1], "a"), (snowman[1:], "\N{SNOWMAN}"), (b"", ""), (b"\xff", "\N{REPLACEMENT CHARACTER}")):
        with path.open("ab") as file:
            file.write(piece)
        assert tail.read() == text


FOLLOW = """
import sys, time
from pathlib import Path
from zerocfg.launch.follow import Follower
from zerocfg.launch.paths import JobPaths
paths = JobPaths(Path(sys.argv[1]))
with Follower(paths, total_steps=4, bar=True) as follower:
    paths.rank_log(0).write_text("first line\\npart")
    paths.metrics.write_text('{"step": 1, "loss": 3.25}\\nnot json\\n{"step": 2, "lo')
    follower.pump()
    with paths.metrics.open("a") as file:
        file.write('ss": 2.5}\\n')
    with paths.rank_log(0).open("a") as file:
        file.write("ly\\r10%\\r100%\\nlast")
    follower.pump()
    time.sleep(0.3)
"""


def test_a_pipe_gets_the_log_as_it_is(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FOLLOW, tmp_path], capture_output=True, check=True)
    assert done.stdout == b"first line\npartly\r10%\r100%\nlast"


def test_a_terminal_gets_a_bar_too(tmp_path: Path) -> None:
    master, slave = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    try:
        subprocess.run([sys.executable, "-c", FOLLOW, tmp_path], stdout=slave, check=True, env=env)
        os.set_blocking(master, False)
        shown = os.read(master, 1 << 20).decode()
    finally:
        os.close(slave)
        os.close(master)
    words = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    assert "2/4" in words
    assert "loss 2.5" in words
    lines = words.replace("\r", "\n").split("\n")
    for text in ("first line", "100%", "last"):
        assert [line.strip() for line in lines].count(text) == 1
