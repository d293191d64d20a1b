"""A job's folder for swap files: its own, removed at the end, also by others when the job was killed; and space for it."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from zerocfg.artifact import placed
from zerocfg.compiler import compile_run
from zerocfg.diagnostics import ConfigProblems
from zerocfg.runtime import swap_folder
from zerocfg.runtime.swap_folder import check_here, check_space, claimed, dead, folders_of

Make = Callable[..., dict[str, Any]]
HOST = os.uname().nodename
HOLDER = """
import sys, time
from pathlib import Path
from zerocfg.runtime.swap_folder import claimed
with claimed(Path(sys.argv[1])):
    Path(sys.argv[1], "states.swp").write_bytes(b"x")
    print("held", flush=True)
    time.sleep(60)
"""


@contextmanager
def held_by_another(folder: Path, *, at_once: bool = True) -> Iterator[subprocess.Popen[str]]:
    """A process that holds it, and is killed with -9 at the end."""
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(folder)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        if at_once:
            assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_as_long_as_it_is_held(tmp_path: Path) -> None:
    folder = tmp_path / "zerocfg-a"
    with claimed(folder):
        assert names(folder) == [f".lock.{HOST}"]
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "zero_stage_3/optimizer/rank0").mkdir(parents=True)
        assert dead(tmp_path) == []
    assert names(tmp_path) == [".zerocfg.lock"]
    with pytest.raises(ValueError, match="unwell"), claimed(folder):
        raise ValueError("unwell")
    assert names(tmp_path) == [".zerocfg.lock"]


def test_two_jobs_and_the_same_job_twice(tmp_path: Path) -> None:
    with claimed(tmp_path / "zerocfg-a"):
        with claimed(tmp_path / "zerocfg-b"):
            assert names(tmp_path) == [".zerocfg.lock", "zerocfg-a", "zerocfg-b"]
        other = subprocess.run([sys.executable, "-c", HOLDER, str(tmp_path / "zerocfg-a")], capture_output=True, text=True, check=False)
        assert f"error[ZC712] offload.nvme_path={tmp_path}: {tmp_path}/zerocfg-a is in use by another run of this job" in other.stderr
        assert names(tmp_path) == [".zerocfg.lock", "zerocfg-a"]


def test_what_a_killed_job_has_left_goes_at_the_next_start(tmp_path: Path) -> None:
    (tmp_path / "zerocfg-mine").write_text("a file of the user's")
    with held_by_another(tmp_path / "zerocfg-a"), claimed(tmp_path / "zerocfg-b"):
        assert (tmp_path / "zerocfg-a/states.swp").exists()
    assert dead(tmp_path) == [tmp_path / "zerocfg-a"]
    with claimed(tmp_path / "zerocfg-b"):
        assert names(tmp_path) == [".zerocfg.lock", "zerocfg-b", "zerocfg-mine"]
    # the same job again finds nothing of its last run
    with held_by_another(tmp_path / "zerocfg-a"):
        pass
    with claimed(tmp_path / "zerocfg-a"):
        assert names(tmp_path / "zerocfg-a") == [f".lock.{HOST}"]


def test_a_disk_that_nodes_share(tmp_path: Path) -> None:
    """Another node's lock cannot be asked from here: its folder stays, and the last node removes it."""
    folder = tmp_path / "zerocfg-a"
    with claimed(folder):
        (folder / ".lock.elsewhere").touch()
        (folder / "states.swp").touch()
    assert names(folder) == [".lock.elsewhere", "states.swp"]
    with claimed(tmp_path / "zerocfg-b"):
        assert dead(tmp_path) == []
    assert names(folder) == [".lock.elsewhere", "states.swp"]


def test_starts_wait_for_each_other(tmp_path: Path) -> None:
    queue = (tmp_path / ".zerocfg.lock").open("w")
    fcntl.flock(queue, fcntl.LOCK_EX)
    with held_by_another(tmp_path / "zerocfg-a", at_once=False) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=3)
        assert not (tmp_path / "zerocfg-a").exists()
        queue.close()
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigProblems) as caught, claimed(tmp_path / "disk/zerocfg-a"):
        pass
    assert str(caught.value) == (
        f"error[ZC712] offload.nvme_path={tmp_path}/disk: No such file or directory\n"
        f"  try: mkdir -p {tmp_path}/disk on each node, or offload.nvme_path=FOLDER on a local NVMe disk; in a container it must be mounted"
        "\n\n1 error"
    )


def test_the_compiled_json_has_the_folder(container: Make) -> None:
    changes = {"offload": {"optimizer": "nvme", "param": "nvme", "nvme_path": "/nvme/"}}
    run = compile_run(container(changes))
    assert folders_of(run.deepspeed) == [Path("/nvme")]
    one, again, other = (placed(run, job) for job in ("/runs/0", "/runs/0", "/runs/1"))
    (folder,) = folders_of(one.deepspeed)
    assert folder.parent == Path("/nvme")
    assert folder.name.startswith("zerocfg-")
    assert folders_of(again.deepspeed) == [folder] != folders_of(other.deepspeed)
    for section in ("offload_optimizer", "offload_param"):
        entry = one.provenance[f"zero_optimization.{section}.nvme_path"]
        assert (entry.value, entry.source) == (str(folder), "emit")
        assert entry.reason.startswith("/nvme/, and in it a folder of this job alone (")
    assert run.deepspeed["zero_optimization"]["offload_param"]["nvme_path"] == "/nvme/"
    # nothing swaps: nothing changes
    plain = compile_run(container())
    assert placed(plain, "/runs/0") is plain


class Usage(NamedTuple):
    total: int
    used: int
    free: int


def test_space(tmp_path: Path, container: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    run = compile_run(container({"offload": {"optimizer": "nvme", "nvme_path": str(tmp_path)}}))
    assert [*check_space(run.deepspeed, run.plan)] == []
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(0, 0, 200_000_000))
    (problem,) = check_space(placed(run, "/runs/0").deepspeed, run.plan)
    # 16 bytes of states and gradients for each of 13.2 million parameters
    assert problem.render() == (
        f"error[ZC713] offload.nvme_path={tmp_path} has 191 MiB free, and the run swaps 201 MiB there on each node\n"
        "  optimizer of 8 ranks a node at stage 3\n"
        "  try: offload.nvme_path=FOLDER on a larger disk, or offload=optimizer, which takes host memory"
    )
    # a start would remove first what a dead job has left
    left = tmp_path / "zerocfg-dead"
    left.mkdir()
    (left / "states.swp").write_bytes(os.urandom(30_000_000))
    assert check_here(run.deepspeed, run.plan) == []
    # of a model that is not described nothing is known
    unknown = compile_run(container({"model": {}, "offload": {"optimizer": "nvme", "nvme_path": str(tmp_path)}}))
    assert [*check_space(unknown.deepspeed, unknown.plan)] == []


def test_a_path_that_does_not_exist(tmp_path: Path, container: Make) -> None:
    run = compile_run(container({"offload": {"optimizer": "nvme", "nvme_path": str(tmp_path / "no")}}))
    (problem,) = check_here(run.deepspeed, run.plan)
    assert problem.render().startswith(f"error[ZC712] offload.nvme_path={tmp_path}/no: it does not exist\n")
    assert swap_folder.check_here(compile_run(container()).deepspeed, run.plan) == []
