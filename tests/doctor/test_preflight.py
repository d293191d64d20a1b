"""The driver of a preflight: the command only follows where every node is fit."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from zerocfg.compiler import compile_run
from zerocfg.doctor.node_check import Record
from zerocfg.doctor.preflight import environment, instead, read_records
from zerocfg.emit import COMPILED, write_compiled
from zerocfg.launch.fitness import preflight_command, write_preflight
from zerocfg.launch.paths import JobPaths

Make = Callable[..., dict[str, Any]]
FAILED = {"check": "/dev/shm", "status": "fail", "code": "ZC840", "text": "/dev/shm has 64 MiB", "fix": "--ipc=host"}


@pytest.fixture
def job(tmp_path: Path, container: Make) -> JobPaths:
    """A compiled job of two ranks whose launch.sh only says that it ran."""
    paths = JobPaths(tmp_path / "my job")
    paths.inner.mkdir(parents=True)
    run = compile_run(container({"hardware.accelerator": "cpu", "hardware.gpus_per_node": 2, "env": {"HF_TOKEN": "s3cr3t"}}))
    write_compiled(run, paths.root / COMPILED, program=("-m", "x"))
    write_preflight(run, paths, "/usr/bin/python3")
    script(paths, "launch.sh", 'echo "trained with $1"')
    return paths


def script(paths: JobPaths, name: str, *lines: str) -> None:
    (paths.root / COMPILED / name).write_text("#!/bin/sh\n" + "\n".join(lines) + "\n")


def wrote(paths: JobPaths, rank: int, **changes: Any) -> str:
    """A line of a stand-in for preflight.sh: what a rank leaves behind."""
    fields: dict[str, Any] = {"rank": rank, "local_rank": rank, "host": "box", "stage": "done", "device": "cpu", "tflops": 1.0}
    text = json.dumps(asdict(Record(**(fields | changes))))
    return f"printf '%s' '{text}' > '{paths.preflight}/rank_{rank}.json'"


def run(paths: JobPaths, **environ: str) -> subprocess.CompletedProcess[str]:
    command = preflight_command(sys.executable, ("/bin/sh", str(paths.root / COMPILED / "launch.sh"), "an argument"))
    return subprocess.run(
        command, env={**os.environ, "ZEROCFG_RUN_DIR": str(paths.root), **environ}, capture_output=True, text=True, timeout=60
    )


def test_fit(job: JobPaths) -> None:
    script(job, "preflight.sh", wrote(job, 0), wrote(job, 1))
    done = run(job)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-2:] == ["preflight: 1 node, 2 ranks; product 1 to 1 TFLOP/s", "trained with an argument"]
    assert not job.preflight_report.exists()


def test_a_node_that_is_not(job: JobPaths) -> None:
    script(job, "preflight.sh", wrote(job, 0, findings=[FAILED]), wrote(job, 1))
    done = run(job)
    assert done.returncode == 1
    assert "trained" not in done.stdout
    # one node: it goes by the name of the host, not by that of a container
    title = f"error[ZC880] {socket.gethostname()}: /dev/shm: /dev/shm has 64 MiB"
    assert job.preflight_report.read_text() == f"{title}\n  try: --ipc=host\n\n1 error\n"


@pytest.mark.parametrize("lines", [["echo 'no such device'; exit 3"], []])
def test_ranks_that_say_nothing(job: JobPaths, lines: list[str]) -> None:
    script(job, "preflight.sh", *lines)
    done = run(job)
    assert done.returncode == 1
    assert "trained" not in done.stdout
    said = job.preflight_report.read_text()
    assert "error[ZC881] rank 0, 1 did not get through the preflight" in said


def test_a_warning_lets_it_start(job: JobPaths) -> None:
    script(job, "preflight.sh", wrote(job, 0, findings=[{**FAILED, "status": "warn"}]), wrote(job, 1))
    done = run(job)
    assert done.returncode == 0
    assert f"warning[ZC840] {socket.gethostname()}: /dev/shm" in done.stdout
    assert "trained with" in done.stdout


def test_it_stops_when_it_is_told(job: JobPaths) -> None:
    script(job, "preflight.sh", f"touch '{job.root}/going'; exec sleep 60")
    command = preflight_command(sys.executable, ("/bin/sh", str(job.root / COMPILED / "launch.sh")))
    with subprocess.Popen(command, env={**os.environ, "ZEROCFG_RUN_DIR": str(job.root)}, stdout=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 30
        while not (job.root / "going").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGTERM
    assert "trained" not in out


def test_the_rendezvous_is_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZEROCFG_RDZV_PORT", "15000")
    monkeypatch.setenv("ZEROCFG_RDZV_ID", "42.0")
    monkeypatch.setattr("zerocfg.doctor.preflight.free_port", lambda first: first + 2)
    assert {k: v for k, v in environment().items() if "RDZV" in k} == {"ZEROCFG_RDZV_PORT": "15003", "ZEROCFG_RDZV_ID": "42.0.preflight"}
    monkeypatch.delenv("ZEROCFG_RDZV_PORT")
    monkeypatch.delenv("ZEROCFG_RDZV_ID")
    assert {k: v for k, v in environment().items() if "RDZV" in k} == {"ZEROCFG_RDZV_ID": "zerocfg.preflight"}


def test_its_script_is_launch_sh_with_another_program(job: JobPaths) -> None:
    text = (job.root / COMPILED / "preflight.sh").read_text()
    assert text.endswith("-m zerocfg.doctor.node_check\n")
    assert '--log-dir="$ZEROCFG_RUN_DIR"/.zerocfg/preflight/torchrun' in text
    assert "s3cr3t" not in text
    assert (job.root / COMPILED / "preflight.sh").stat().st_mode & 0o777 == 0o700


def test_what_an_earlier_start_found_is_forgotten(job: JobPaths) -> None:
    """SLURM runs a script again after a node has failed."""
    script(job, "preflight.sh", wrote(job, 0, findings=[FAILED]), wrote(job, 1))
    assert run(job).returncode == 1
    script(job, "preflight.sh", wrote(job, 0))
    assert run(job).returncode == 1
    assert "rank 1 did not get through" in job.preflight_report.read_text()
    script(job, "preflight.sh", wrote(job, 0), wrote(job, 1))
    assert run(job).returncode == 0
    assert not job.preflight_report.exists()


def test_an_srun_of_the_job_becomes_one_of_the_preflight() -> None:
    """A log a node, and nothing in the log of the training."""
    words = ["srun", "--nodes=2", "--output=.zerocfg/torchrun.log", "--open-mode=append", "--label", "py", "start", "/a b/launch.sh", "x"]
    assert instead(words) == [
        *("srun", "--nodes=2", "--output=.zerocfg/preflight/%N.log", "--open-mode=append", "py", "start", "/a b/preflight.sh", "x")
    ]


def test_what_the_nodes_of_an_srun_said(job: JobPaths) -> None:
    say = f"printf 'first\nImportError: torch\n' > '{job.preflight}/node1.log'; echo ended > '{job.preflight}/node0.log'"
    script(job, "preflight.sh", say, "echo 'srun: error: node1: task 1: Exited with exit code 3' >&2", "exit 3")
    done = run(job)
    assert done.stdout.splitlines()[:4] == [
        "srun: error: node1: task 1: Exited with exit code 3",
        "node0: ended",
        "node1: first",
        "node1: ImportError: torch",
    ]
    assert job.preflight_report.read_text().splitlines()[:4] == [
        "error[ZC881] node1 did not get through the preflight",
        "  node1: Exited with exit code 3",
        "  first",
        "  ImportError: torch",
    ]


def test_damaged_records_are_left_out(job: JobPaths) -> None:
    (job.preflight / "rank_0.json").write_text("{")
    (job.preflight / "rank_1.json").write_text('{"rank": 1}')
    (job.preflight / "rank_2.json").write_text('{"rank": 2, "local_rank": 0, "host": "box"}')
    assert list(read_records(job)) == [2]
