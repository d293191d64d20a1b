"""Jobs that are stopped, requeued, over their limit, or lose their slurmstepd: each goes on by itself, and no step is counted twice."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.needs import require
from zerocfg.runtime.checkpoint_files import survey

from . import cluster as test_cluster
from .cluster import SlurmCluster
from .test_launcher import eventually, results

pytestmark = [pytest.mark.slurm, pytest.mark.integration]
CONFIG = """
defaults: [zerocfg, override model: none, override hydra/launcher: zerocfg_slurm, _self_]
what: ''
hold: 30
holds: 1
hydra: {sweep: {dir: out}, launcher: {poll_seconds: 0.3, cpus_per_task: 2}}
hardware: {name: cpu, detect: true, accelerator: cpu, gpus_per_node: 2}
precision: {dtype: fp32}
parallelism: {stage: 2}
batch: {global_batch_size: 8}
optimizer: {lr: 0.01}
train: {steps: 60, log_every: 1}
checkpoint: {every_steps: 20, keep_last: 2}
"""
SECONDS = 240
"""A loaded machine may take a minute to start two ranks."""


class Launch:
    """A launcher that waits for its jobs, and the jobs."""

    def __init__(self, home: Path, cluster: SlurmCluster, *overrides: str) -> None:
        self.home, self.cluster, self.out = home, cluster, home / "launcher.txt"
        shutil.copy(Path(__file__).with_name("requeue_app.py"), home / "app.py")
        (home / "config.yaml").write_text(CONFIG)
        with self.out.open("w") as file:
            self.process = subprocess.Popen(
                [sys.executable, "app.py", *overrides], cwd=home, env=cluster.env(), stdout=file, stderr=subprocess.STDOUT
            )

    def __enter__(self) -> Launch:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def job(self, number: int) -> Path:
        return self.home / "out" / str(number)

    def held(self, number: int, ranks: int = 2, *, time: int = 1) -> str:
        """Wait until a job is at its step for the first or second time, and return its id."""
        eventually(lambda: all((self.job(number) / f"held_{time}_{rank}").exists() for rank in range(ranks)), SECONDS)
        jobs = json.loads((self.home / "out/slurm/jobs.json").read_text())["jobs"]
        return str(jobs[number]["slurm_id"])

    def go(self, number: int, *, time: int = 1) -> None:
        (self.job(number) / f"go_{time}").touch()

    def end(self) -> tuple[int, str]:
        return self.process.wait(SECONDS), self.out.read_text()

    def losses(self, number: int) -> list[tuple[int, float]]:
        lines = (self.job(number) / "metrics.jsonl").read_text().splitlines()
        return [(record["step"], record["loss"]) for record in map(json.loads, lines)]

    def starts(self, number: int) -> int:
        return (self.job(number) / "starts_0").stat().st_size

    def resumed_at(self, number: int) -> list[int]:
        made: list[int] = json.loads((self.job(number) / "summary.json").read_text())["resumed_at"]
        return made

    def jobs(self) -> tuple[int, list[dict[str, Any]]]:
        """`zerocfg jobs`."""
        command = [sys.executable, "-m", "zerocfg", "jobs", "out", "--json"]
        done = subprocess.run(command, cwd=self.home, env=self.cluster.env(), capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, json.loads(done.stdout)


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launch]:
    """Two jobs over their time limit, on a cluster of their own: SLURM takes a minute and a half for that, beside the other tests."""
    require(test_cluster.missing(), os.environ)
    home = tmp_path_factory.mktemp("limit")
    overrides = ("checkpoint.enabled=true,false", "checkpoint.every_steps=null", "hydra.launcher.timeout_min=1")
    with SlurmCluster(home / "s") as cluster, Launch(home, cluster, *overrides, "hydra.launcher.signal_delay_s=5") as launch:
        yield launch


def test_a_signal_and_a_requeue_change_no_digit(slurm: SlurmCluster, tmp_path: Path, limited: Launch) -> None:
    """60 steps straight, 30 + SIGUSR2 + 30, 30 + scontrol requeue + 30, as three tasks of one array."""
    with Launch(tmp_path, slurm, "what=straight,signal,requeue") as launch:
        straight, signalled, requeued = (launch.held(number) for number in range(3))
        launch.go(0)
        slurm.run("scancel", "--signal=USR2", signalled)
        slurm.run("scontrol", "requeue", requeued)
        launch.go(2)
        status, said = launch.end()
    assert status == 0, said
    made = launch.losses(0)
    assert [step for step, _ in made] == list(range(1, 61))
    assert [launch.losses(1), launch.losses(2)] == [made, made]
    # the other task of the array was not touched
    assert [launch.starts(number) for number in range(3)] == [1, 2, 2]
    assert launch.resumed_at(0) == []
    # at once, or after one more step
    assert launch.resumed_at(1) in ([30], [31])
    # SIGTERM, some seconds before it is killed
    assert launch.resumed_at(2)[0] >= 20
    assert [survey(launch.job(number) / "checkpoints")[1] for number in range(3)] == [[], [], []]

    assert "job 1: REQUEUED (BeginTime), restart 1\n" in said
    assert said.count(", restart 1\n") == 4  # two jobs: into the queue, and running again
    assert "job 0: REQUEUED" not in said
    assert "3 of 3 jobs done" in said
    log = (launch.home / f"out/slurm/{signalled}.log").read_text()
    assert f"zerocfg: SIGUSR2, saved after step {launch.resumed_at(1)[0]}: {launch.job(1)}/checkpoints/global_step" in log
    assert "; back into the queue, restart 1 of at most 20 (checkpoint.max_requeues)" in log
    status, jobs = launch.jobs()
    assert (status, [(job["state"], job["restarts"], job["slurm_id"]) for job in jobs]) == (
        0,
        [("done", 0, straight), ("done", 1, signalled), ("done", 1, requeued)],
    )
    assert [row["state"] for row in results(tmp_path / "out")] == ["done"] * 3


def test_a_killed_slurmstepd_and_the_bound(slurm: SlurmCluster, tmp_path: Path, limited: Launch) -> None:
    overrides = ("hardware.gpus_per_node=1", "hardware.num_nodes=1,2", "holds=2", "checkpoint.max_requeues=1")
    with Launch(tmp_path, slurm, *overrides) as launch:
        lost, stopped = launch.held(0, 1), launch.held(1)
        launch.go(0, time=2)
        daemon = step_daemon(slurm, lost)
        os.kill(daemon, signal.SIGKILL)
        slurm.run("scancel", "--signal=USR2", stopped)
        launch.go(0)
        launch.held(1, time=2)
        slurm.run("scancel", "--signal=USR2", stopped)
        status, said = launch.end()
    assert status == 1, said
    # its ranks heard of it and saved; srun had not noticed
    log = (launch.home / f"out/slurm/{lost}.log").read_text()
    assert "zerocfg: slurmstepd of node" in log
    assert " is gone, and srun has not noticed: ending the step\n" in log
    assert " was killed, saved after step 3" in log
    assert [step for step, _ in launch.losses(0)] == list(range(1, 61))
    assert (launch.starts(0), launch.resumed_at(0)[0] >= 30) == (2, True)

    # over two nodes, stopped at each start
    why = "SIGUSR2; not put back into the queue: checkpoint.max_requeues=1 is reached, it was started 2 times"
    assert f"job 1 was stopped ({why}) after step 3" in said
    assert f"  checkpoint: {launch.job(1)}/checkpoints/global_step3" in said
    assert "  go on: the same command with hydra.sweep.dir=out\n" in said
    status, jobs = launch.jobs()
    assert (status, [(job["state"], job["restarts"]) for job in jobs]) == (1, [("done", 1), ("preempted", 1)])
    assert jobs[1]["reason"] == why
    assert [row["state"] for row in results(tmp_path / "out")] == ["done", "preempted"]


def step_daemon(cluster: SlurmCluster, job: str) -> int:
    """The slurmstepd of a job's step on its first node, as this machine sees it. Another cluster may have a job of the same number."""
    raw, of_this = f"slurmstepd: [{job}.0]".encode(), f"SLURM_CONF={cluster.root}/slurm.conf".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "cmdline").read_bytes().startswith(raw) and of_this in (entry / "environ").read_bytes().split(b"\0"):
                return int(entry.name)
        except OSError:
            continue
    raise AssertionError(f"no slurmstepd of job {job}")


def test_a_time_limit(limited: Launch) -> None:
    status, said = limited.end()
    assert status == 1, said
    # it saved before the limit, and went on; a start that is slow may have been stopped before its first step
    assert [step for step, _ in limited.losses(0)] == list(range(1, 61))
    assert limited.starts(0) >= 2
    assert 30 in limited.resumed_at(0) or 31 in limited.resumed_at(0)
    assert "job 0: REQUEUED (BeginTime), restart " in said
    # nothing was saved
    assert "job 1 was stopped: time limit (SLURM job " in said
    assert "TIMEOUT, TimeLimit, node" in said
    assert "  try: a longer hydra.launcher.timeout_min; or checkpoint=on_stop: it saves before the limit, and goes on in " in said
    assert [row["state"] for row in results(limited.home / "out")] == ["done", "timeout"]
