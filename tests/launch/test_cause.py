"""Which rank made a job fail, out of what the ranks and torchrun left behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from zerocfg.launch.cause import crashed, exit_statuses, find_hang, is_echo, last_seen, originals
from zerocfg.launch.paths import JobPaths
from zerocfg.launch.results import RankResult
from zerocfg.runtime.heartbeat import beat_file

GLOO = "RuntimeError: [.../unbound_buffer.cc:78] Timed out waiting 6000ms for recv operation to complete"
NCCL = (
    "[rank0]:[E401 12:00:00.1 ProcessGroupNCCL.cpp:632] [Rank 0] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=71, OpType=_ALLGATHER_BASE, NumelIn=8, NumelOut=16, Timeout(ms)=600000) ran for 600013 milliseconds before timing out."
)
TORCHRUN = """
zerocfg.launch.worker FAILED
Failures:
[1]:
  time      : 2026-01-01_00:00:00
  host      : node1
  rank      : 1 (local_rank: 1)
  exitcode  : -9 (pid: 32636)
Root Cause (first observed failure):
[0]:
  rank      : 0 (local_rank: 0)
  exitcode  : 1 (pid: 32635)
  error_file: <N/A>
[2]:
  rank      : 2 (local_rank: 2)
  exitcode  : -15 (pid: 32637)
"""


@pytest.fixture
def paths(tmp_path: Path) -> JobPaths:
    made = JobPaths(tmp_path / "job")
    made.results.mkdir(parents=True)
    return made


def failed(rank: int, error: str, time: float = 100.0) -> RankResult:
    return RankResult(rank=rank, ok=False, error=error, time=time)


@pytest.mark.parametrize(
    ("error", "echo"),
    [
        (GLOO, True),
        ("RuntimeError: [.../pair.cc:537] Read error [127.0.0.1]:36780: Connection reset by peer. ...", True),
        ("RuntimeError: [.../pair.cc:534] Connection closed by peer [127.0.0.1]:41872", True),
        ("torch.distributed.DistBackendError: NCCL error ...: ncclRemoteError: A call failed possibly due to a network error", True),
        ("torch.distributed.DistStoreError: wait timeout after 6000ms, keys: /default_pg/0/0", True),
        ("ValueError: rank 1 is unwell", False),
        ("requests.exceptions.ReadTimeout: HTTPSConnectionPool: Read timed out. (read timeout=10)", False),
        ("torch.OutOfMemoryError: CUDA out of memory.", False),
    ],
)
def test_an_echo(error: str, echo: bool) -> None:
    assert is_echo(failed(0, error)) is echo


def test_a_script_that_has_said_why(paths: JobPaths) -> None:
    """A script of `zerocfg launch`: its status, and the last lines of its log."""
    lines = f"Traceback (most recent call last):\n  ...\n{GLOO}"
    timed_out = RankResult(rank=0, ok=False, error="exit status 1", traceback=lines)
    assert is_echo(timed_out)
    hang = find_hang(paths, [timed_out], 2)
    assert hang is not None
    assert hang.title == "a collective timed out: rank 1 of 2 is missing"
    assert not is_echo(RankResult(rank=0, ok=False, error="exit status 1", traceback="ValueError: unwell"))
    aborted = RankResult(rank=0, ok=False, error="ended by SIGABRT", traceback="Fatal Python error: Aborted")
    assert is_echo(aborted)
    assert find_hang(paths, [aborted], 2) is None


def test_the_cause_is_not_the_echo_that_came_first() -> None:
    echo, cause = failed(0, GLOO, 1.0), failed(1, "ValueError: rank 1 is unwell", 2.0)
    assert originals([echo, cause]) == [cause]


def test_what_a_signal_has_ended(paths: JobPaths) -> None:
    assert crashed(paths) == {}
    paths.starter_log.write_text(TORCHRUN)
    assert crashed(paths) == {1: "SIGKILL"}
    assert exit_statuses(paths) == {0: 1}
    assert last_seen(paths, 1) == ""
    beat_file(paths.results, 1).write_text(json.dumps({"rank": 1, "step": 7, "phase": "backward", "where": "train.py:4 in main: x()"}))
    assert last_seen(paths, 1) == ", last seen in step 7, backward: train.py:4 in main: x()"


def test_a_gloo_timeout(paths: JobPaths) -> None:
    beat_file(paths.results, 0).write_text(json.dumps({"rank": 0, "step": 5, "waits_in": "all_reduce", "since": 94.0}))
    beat_file(paths.results, 1).write_text(json.dumps({"rank": 1, "step": 5, "where": "app.py:3 in main: sleep()", "since": 90.0}))
    hang = find_hang(paths, [failed(0, GLOO)], 2)
    assert hang is not None
    assert (hang.title, hang.rank) == ("a collective timed out (all_reduce): rank 1 of 2 is missing", 0)
    assert hang.lines == (
        "rank 1: step 5, for 10 s  app.py:3 in main: sleep()",
        "rank 0: step 5, waits in all_reduce, for 6 s",
        "timed out: rank 0: Timed out waiting 6000ms for recv operation",
    )


def test_nccl_ends_its_rank_without_a_word_but_in_the_log(paths: JobPaths) -> None:
    """Also where there are no heartbeats: a script of `zerocfg launch`."""
    paths.rank_log(0).write_text(f"step 1\n{NCCL}\nFatal Python error: Aborted\n")
    paths.rank_log(1).write_text("step 1\n")
    (paths.root / "nccl_trace_rank_0").touch()
    hang = find_hang(paths, [], 2)
    assert hang is not None
    assert hang.title == "a collective timed out (_ALLGATHER_BASE number 71): rank 1 of 2 is missing"
    assert hang.lines == (
        "timed out: rank 0: WorkNCCL(SeqNum=71, OpType=_ALLGATHER_BASE, NumelIn=8, NumelOut=16, Timeout(ms)=600000)",
        f"NCCL's flight recorder: {paths.root}/nccl_trace_rank_<rank>, 1 file; torchfrtrace --prefix nccl_trace_rank_ {paths.root}",
    )
    # a rank asks for its own words alone
    assert find_hang(paths, [], 2, logs=False) is None


def test_no_hang(paths: JobPaths) -> None:
    paths.rank_log(0).write_text("a request timed out\n")
    assert find_hang(paths, [failed(0, "ValueError: Connection timed out")], 2) is None
