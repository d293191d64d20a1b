"""A rank's process ends with its status after the exit handlers, whatever would happen when the interpreter is taken apart."""

from __future__ import annotations

import subprocess
import sys

import pytest

RANK = """
import atexit, os, sys, types

class Thread:
    def __del__(self):  # as a library's thread that still runs
        os.abort()

def main(arguments):
    atexit.register(print, "handlers are called,", *arguments)
    sys.modules["kept"] = types.SimpleNamespace(thread=Thread())
    {end}

rank = types.ModuleType("zerocfg.launch.rank")
rank.main = main
sys.modules["zerocfg.launch.rank"] = rank
from zerocfg.launch.ending import run
run(["payload.pkl"])
"""


@pytest.mark.parametrize(("end", "status"), [("return 0", 0), ("return 85", 85), ("raise ValueError('a fault')", 1)])
def test_the_status_is_the_ranks(end: str, status: int) -> None:
    done = subprocess.run([sys.executable, "-c", RANK.format(end=end)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (status, "handlers are called, payload.pkl\n")
    assert ("ValueError: a fault" in done.stderr) is (status == 1)


def test_without_it_the_rank_would_abort() -> None:
    plain = RANK.replace("from zerocfg.launch.ending import run\nrun(", "sys.exit(main(").replace('"])', '"]))')
    done = subprocess.run([sys.executable, "-c", plain.format(end="return 0")], capture_output=True, text=True, check=False)
    assert done.returncode == -6
