"""Around a step in the batch script: what an end means, when a job goes back into the queue, and a slurmstepd that dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from zerocfg.compiler import compile_run
from zerocfg.emit import COMPILED, write_compiled
from zerocfg.errors import Preempted
from zerocfg.launch.paths import JobPaths
from zerocfg.launch.processes import with_token
from zerocfg.launch.results import RankResult, failed, succeeded, write_result
from zerocfg.launch.slurm_daemon import DaemonWatch, end_step, newest_daemon
from zerocfg.launch.slurm_step import NOTE_FILE, START_FILE, StepEnd, Stop, all_over, bound, job_name, stop_of, told_by

SAVED = failed(0, Preempted(30, "SIGUSR2", "/run/checkpoints/global_step30"))
UNSAVED = failed(0, Preempted(1, "SIGTERM", ""))
BOOM = failed(1, ValueError("boom"))
ECHO = failed(1, RuntimeError("Connection closed by peer"))
WHERE = ", saved after step 30: /run/checkpoints/global_step30"


def end(status: int, *results: RankResult, **more: Any) -> StepEnd:
    return StepEnd(status=status, results={result.rank: result for result in results}, **more)


@pytest.mark.parametrize(
    ("ended", "stop"),
    [
        (end(0, succeeded(0, 1.0), succeeded(1, None)), None),
        (end(1, SAVED), Stop(why="SIGUSR2", saved=WHERE)),
        # ranks beside it were ended while it saved
        (end(1, SAVED, ECHO), Stop(why="SIGUSR2", saved=WHERE)),
        (end(1, UNSAVED), Stop(why="SIGTERM")),
        (end(1, SAVED, BOOM), None),
        (end(1, BOOM), None),
        (end(1), None),
        (end(137), None),
        (end(137, SAVED), Stop(why="torchrun was killed", saved=WHERE)),
        # before the training loop listens
        (end(1, told=signal.SIGUSR2), Stop(why="SIGUSR2")),
        (end(128 + signal.SIGUSR2), Stop(why="SIGUSR2")),
        # srun ends the other tasks of one that has failed by SIGTERM
        (end(128 + signal.SIGTERM, nodes=2), None),
        (end(1, told=signal.SIGTERM, nodes=2), Stop(why="SIGTERM")),
        (end(1, told=signal.SIGSEGV), None),
        (end(1, BOOM, told=signal.SIGUSR2), None),
        (end(137, lost="node3"), Stop(why="slurmstepd of node3 was killed")),
        (end(137, SAVED, lost="node3"), Stop(why="slurmstepd of node3 was killed", saved=WHERE)),
        (end(137, BOOM, lost="node3"), None),
    ],
)
def test_what_an_end_means(ended: StepEnd, stop: Stop | None) -> None:
    assert stop_of(ended) == stop


def test_who_was_told(tmp_path: Path) -> None:
    word = "torch.distributed.elastic.multiprocessing.api.SignalException: Process 7 got signal: 15\n"
    log = tmp_path / "torchrun.log"
    assert told_by(log, 1) == 0
    log.write_text(f"Traceback\n{word}")
    assert (told_by(log, 1), told_by(log, 2)) == (15, 0)
    log.write_text(f"0: {word}1: ModuleNotFoundError: No module named 'torch'\n")
    assert told_by(log, 2) == 0
    log.write_text(f" 0: {word}10: {word}")
    assert told_by(log, 2) == 15


def test_how_often() -> None:
    plan = {"enabled": True, "max_requeues": 2}
    assert [bound(plan, restarts) for restarts in (0, 1)] == ["", ""]
    assert bound(plan, 2) == "checkpoint.max_requeues=2 is reached, it was started 3 times"
    assert bound({**plan, "max_requeues": 0}, 0) == "checkpoint.max_requeues=0 is reached"
    assert bound({**plan, "enabled": False}, 0) == "no checkpoints are saved (checkpoint.enabled)"


def test_the_id_of_an_arrays_task_is_not_the_arrays() -> None:
    """SLURM_JOB_ID of the last task to start is that of the array: requeueing it would restart all of them."""
    assert job_name({"SLURM_JOB_ID": "12", "SLURM_ARRAY_JOB_ID": "12", "SLURM_ARRAY_TASK_ID": "3"}) == "12_3"
    assert job_name({"SLURM_JOB_ID": "12"}) == "12"


class Batch:
    """A batch script's part around the step, with a scontrol that takes notes and a `srun` of the test's own."""

    def __init__(self, home: Path, container: dict[str, Any] | None) -> None:
        self.home, self.paths = home, JobPaths(home / "job")
        self.paths.results.mkdir(parents=True)
        if container is not None:
            write_compiled(compile_run(container), self.paths.root / COMPILED)
        self.tools = home / "tools"
        self.tools.mkdir()
        self.tool("scontrol", f'echo "$@" >>"{home}/asked"; [ -z "$REFUSED" ] || {{ echo "$REFUSED" >&2; exit 1; }}; kill -TERM $PPID')
        self.env = {**os.environ, "PATH": f"{self.tools}:{os.environ['PATH']}", "ZEROCFG_RUN_DIR": str(self.paths.root)}
        self.env |= {"ZEROCFG_JOB_TOKEN": f"test-{home}", "SLURM_JOB_ID": str(10**8 + os.getpid())}

    def tool(self, name: str, text: str) -> None:
        (self.tools / name).write_text(f"#!/bin/bash\n{text}\n")
        (self.tools / name).chmod(0o755)

    def run(self, srun: str, *results: RankResult, **environ: str) -> tuple[int, str]:
        for result in results:
            write_result(self.home / f"made_{result.rank}.pkl", result)
        self.tool("srun", f'for f in "{self.home}"/made_*.pkl; do cp "$f" "{self.paths.results}/result_${{f##*_}}"; done\n{srun}')
        command = [sys.executable, "-m", "zerocfg.launch.slurm_step", "srun", "--label"]
        done = subprocess.run(command, env={**self.env, **environ}, capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stderr

    @property
    def asked(self) -> str:
        return (self.home / "asked").read_text() if (self.home / "asked").exists() else ""


@pytest.fixture
def batch(tmp_path: Path, container: Callable[..., dict[str, Any]]) -> Batch:
    return Batch(tmp_path, container({"checkpoint.every_steps": 10, "checkpoint.max_requeues": 2, "hardware.gpus_per_node": 1}))


@pytest.mark.integration
def test_ranks_that_have_lost_their_torchrun_are_waited_for(batch: Batch) -> None:
    """What they leave behind comes after srun has ended."""
    write_result(batch.home / "late.pkl", SAVED)
    late = f'SLURM_STEP_ID=0 bash -c "sleep 1; mv {batch.home}/late.pkl {batch.paths.results}/result_0.pkl" &'
    status, said = batch.run(f"{late} exit 137")
    assert (status, batch.asked) == (85, f"requeue {batch.env['SLURM_JOB_ID']}\n")
    assert f"zerocfg: torchrun was killed{WHERE}; back into the queue, restart 1 of at most 2 " in said


@pytest.mark.integration
def test_scontrol_is_ended_with_the_job(batch: Batch) -> None:
    batch.tool("scontrol", "kill -TERM $PPID; kill -TERM $$")
    status, said = batch.run("exit 1", SAVED)
    assert (status, "not put back" in said) == (85, False)


@pytest.mark.integration
def test_a_job_that_has_saved_goes_back_into_the_queue(batch: Batch) -> None:
    (batch.paths.starter_log).write_text("of the start before")
    write_result(batch.paths.result(7), BOOM)
    status, said = batch.run("exit 1", SAVED, SLURM_ARRAY_JOB_ID="12", SLURM_ARRAY_TASK_ID="3", SLURM_RESTART_COUNT="1")
    assert (status, batch.asked) == (85, "requeue 12_3\n")
    assert said == f"zerocfg: SIGUSR2{WHERE}; back into the queue, restart 2 of at most 2 (checkpoint.max_requeues)\n"
    # nothing of the start before is taken for this one's
    assert (batch.paths.root / START_FILE).read_text() == "12_3 1\n"
    assert [path.name for path in batch.paths.results.iterdir()] == ["result_0.pkl"]
    assert (batch.paths.inner / "torchrun.1.log").read_text() == "of the start before"
    assert not (batch.paths.root / NOTE_FILE).exists()


@pytest.mark.integration
def test_the_bound_and_a_refusal_are_said(batch: Batch) -> None:
    status, said = batch.run("exit 1", SAVED, SLURM_RESTART_COUNT="2")
    why = "SIGUSR2; not put back into the queue: checkpoint.max_requeues=2 is reached, it was started 3 times\n"
    assert (status, batch.asked, (batch.paths.root / NOTE_FILE).read_text()) == (85, "", why)
    assert said == f"zerocfg: SIGUSR2{WHERE}; not put back into the queue: checkpoint.max_requeues=2 is reached, it was started 3 times\n"
    status, said = batch.run("exit 1", SAVED, REFUSED="Requested operation is presently disabled")
    assert (status, batch.asked) == (85, f"requeue {batch.env['SLURM_JOB_ID']}\n")
    assert "Requested operation is presently disabled (hydra.launcher.requeue=false, or the cluster does not allow it)\n" in said


@pytest.mark.integration
@pytest.mark.parametrize("ending", ["kill -TERM $PPID; exit 1", "exit 1"])
def test_slurm_itself_ends_the_job_or_a_rank_has_failed(batch: Batch, ending: str) -> None:
    """scancel, scontrol requeue, a time limit: the batch script hears of it too."""
    results = (SAVED,) if "TERM" in ending else (SAVED, BOOM)
    assert batch.run(ending, *results) == (1, "")
    assert batch.asked == ""


@pytest.mark.integration
def test_status_and_words_of_the_step_are_its_own(batch: Batch, tmp_path: Path) -> None:
    assert batch.run('echo "$@" >&2; exit 0', succeeded(0, 1.0)) == (0, "--label\n")
    assert batch.run("exit 7") == (7, "")
    assert batch.run("kill -KILL $$") == (137, "")
    (tmp_path / "plain").mkdir()
    plain = Batch(tmp_path / "plain", None)  # an app without groups
    assert plain.run("exit 1", SAVED) == (1, "")
    assert plain.asked == ""


def sleeper(title: str, **environ: str) -> subprocess.Popen[bytes]:
    """A process that calls itself what the test says."""
    return subprocess.Popen(["bash", "-c", 'exec -a "$0" sleep 600', title], env={**os.environ, **environ})


class Step:
    """A slurmstepd with a task, and a srun that waits for it, as far as a look at the processes tells."""

    def __init__(self, tmp_path: Path) -> None:
        self.job, self.token = str(10**8 + os.getpid()), f"test-{tmp_path}"
        named = tmp_path / "srun"
        named.symlink_to("/bin/sleep")
        text = 'ZEROCFG_JOB_TOKEN=$1 SLURM_STEP_ID=0 sleep 600 & echo $! >"$2"; exec -a "$0" sleep 600'
        title, noted = f"slurmstepd: [{self.job}.0]", tmp_path / "task"
        self.daemon = subprocess.Popen(["bash", "-c", text, title, self.token, str(noted)])
        self.others = [sleeper(f"slurmstepd: [{self.job}.batch]"), sleeper("setup's own", ZEROCFG_JOB_TOKEN=self.token)]
        self.srun = subprocess.Popen([str(named), "600"])
        deadline = time.monotonic() + 10
        while (found := newest_daemon(self.job)) is None or not noted.read_text().strip():
            assert time.monotonic() < deadline
        assert found.pid == self.daemon.pid
        self.task = int(noted.read_text())

    def watch(self, *, alone: bool, over: bool = False) -> DaemonWatch:
        made = DaemonWatch(self.job, alone=alone, over=lambda: over, late=0.2, late_elsewhere=0.2)
        assert [made.stuck(), made.stuck()] == [[], []]
        return made

    def end(self, *, task_first: bool) -> None:
        if task_first:
            os.kill(self.task, signal.SIGKILL)
            time.sleep(0.1)
        self.daemon.kill()
        self.daemon.wait()

    def found(self, watch: DaemonWatch) -> list[int]:
        assert watch.stuck() == []  # srun may be about to end
        time.sleep(0.3)
        return [process.pid for process in watch.stuck()]

    def close(self) -> None:
        for process in (self.daemon, self.srun, *self.others):
            process.kill()
            process.wait()
        for pid in with_token(self.token):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def step(tmp_path: Path) -> Iterator[Step]:
    made = Step(tmp_path)
    yield made
    made.close()


@pytest.mark.integration
@pytest.mark.parametrize("alone", [True, False])
def test_a_srun_whose_slurmstepd_was_killed(step: Step, alone: bool) -> None:
    watch = step.watch(alone=alone)
    step.end(task_first=False)
    assert (step.found(watch), watch.here) == ([step.srun.pid], True)
    end_step(step.token, watch.stuck(), grace=0.0)
    assert step.srun.wait(10) == -signal.SIGKILL
    assert step.task not in with_token(step.token)
    assert [process.poll() for process in step.others] == [None, None]


@pytest.mark.integration
def test_a_node_that_is_done_before_the_others(step: Step) -> None:
    """Its slurmstepd ends, and srun rightly waits on."""
    watch = step.watch(alone=False)
    step.end(task_first=True)
    assert step.found(watch) == []


@pytest.mark.integration
def test_the_slurmstepd_of_another_node_was_killed(step: Step) -> None:
    watch = step.watch(alone=False, over=True)
    step.end(task_first=True)
    assert (step.found(watch), watch.here) == ([step.srun.pid], False)


def test_a_step_without_anything_left_to_do(tmp_path: Path) -> None:
    paths, plan = JobPaths(tmp_path), {"topology": {"num_nodes": 2, "nproc_per_node": 1}}
    paths.results.mkdir(parents=True)
    assert all_over(paths, plan) is False
    write_result(paths.result(0), succeeded(0, 1.0))
    assert all_over(paths, plan) is False  # the other node is still at work
    write_result(paths.result(1), succeeded(1, None))
    assert all_over(paths, plan) is True
    paths.result(1).unlink()
    write_result(paths.result(0), SAVED)
    assert all_over(paths, plan) is True


@pytest.mark.integration
def test_slurmstepd_and_all_its_tasks_were_killed(step: Step) -> None:
    watch = step.watch(alone=True)
    step.end(task_first=True)
    assert step.found(watch) == [step.srun.pid]
    step.srun.kill()
    step.srun.wait()
    # the job's next step has a slurmstepd of its own
    assert watch.stuck() == []


def test_results_of_another_rank_do_not_hide_a_stop() -> None:
    both = {0: SAVED, 1: replace(SAVED, rank=1)}
    assert stop_of(StepEnd(status=1, results=both)) == Stop(why="SIGUSR2", saved=WHERE)
