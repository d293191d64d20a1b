"""Around a job's step in its batch script: python -m zerocfg.launch.slurm_step COMMAND..., where COMMAND is srun, or ends in it.

Runs the command. A job that was asked to stop, and has saved, is put back into the queue from here, by its own id, so that other jobs of
an array go on untouched. A step whose slurmstepd has died is ended: srun itself would wait for it for ever.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from zerocfg.emit import COMPILED, RUN_DIR, read_compiled, set_aside
from zerocfg.errors import PREEMPTED_STATUS, ZerocfgError
from zerocfg.launch.cause import originals
from zerocfg.launch.paths import INNER, JOB_TOKEN, JobPaths
from zerocfg.launch.processes import ProcessId
from zerocfg.launch.results import RankResult, read_results, saved_and_stopped
from zerocfg.launch.slurm_daemon import DaemonWatch, end_step

START_FILE = f"{INNER}/slurm_start"
"""Below a job's folder: "JOBID RESTARTS" of the batch script that runs or has run last."""
NOTE_FILE = f"{INNER}/slurm_note"
"""Below a job's folder: why a job that could go on was not put back into the queue."""
_POLL_SECONDS = 0.2
_NOTICE_SECONDS = 1.0
"""Within it a batch script hears of what SLURM has sent to all of its job."""
_REQUEUE_SECONDS = 120.0
"""How long the controller may take to end a batch script that it has put back."""
_ASKED = {number: number.name for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT)}
"""Signals that somebody sends to a job on purpose."""
_TOLD = re.compile(r"^(?:\s*(?P<task>\d+): )?.*SignalException: Process \d+ got signal: (?P<signal>\d+)", re.MULTILINE)
"""Torchrun's last word when it was sent one itself, behind srun's label of the task on several nodes."""
_TAIL_BYTES = 1 << 16


@dataclass(frozen=True, kw_only=True, slots=True)
class StepEnd:
    """What is known when the command has ended."""

    status: int
    """Of the command; 128 + n where a signal has ended it or the task."""
    results: Mapping[int, RankResult]
    told: int = 0
    """Signal that torchrun itself was sent, on all nodes; 0: none. Where one task has failed srun sends the others a signal, too."""
    nodes: int = 1
    lost: str = ""
    """The host whose slurmstepd has died, as far as that is known; empty: none has."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stop:
    """An end after which the job can go on."""

    why: str
    saved: str = ""
    """What was saved, for the end of a sentence."""


def stop_of(end: StepEnd) -> Stop | None:
    """None: it is done, or a rank has failed."""
    failed = originals(result for result in end.results.values() if not result.ok and result.preempted is None)
    if failed or (end.status == 0 and not end.lost):
        return None
    # all ranks agree before one of them stops: what the others say after that is its echo
    found = saved_and_stopped({rank: result for rank, result in end.results.items() if result.ok or result.preempted is not None})
    saved = f", saved after step {found.step}: {found.checkpoint}" if found is not None and found.checkpoint else ""
    if end.lost:
        return Stop(why=f"slurmstepd of {end.lost} was killed", saved=saved)
    if found is not None:
        return Stop(why="torchrun was killed" if end.status == 128 + signal.SIGKILL else found.signal, saved=saved)
    number = end.told or (end.status - 128 if end.nodes == 1 else 0)
    # before the training loop: nothing is new since the last checkpoint
    return Stop(why=_ASKED[signal.Signals(number)]) if number in _ASKED else None


def bound(checkpoint: Mapping[str, Any], restarts: int) -> str:
    """Why a job is not put back into the queue; empty: it is. checkpoint: of the plan. restarts: before this start, of any kind."""
    most = int(checkpoint["max_requeues"])
    if not checkpoint["enabled"]:
        return "no checkpoints are saved (checkpoint.enabled)"
    if restarts >= most:
        return f"checkpoint.max_requeues={most} is reached" + (f", it was started {restarts + 1} times" if restarts else "")
    return ""


def main(command: Sequence[str]) -> int:
    """Returns the exit status of the batch script: the command's, or 85 for a job that was stopped and could go on."""
    environ = os.environ
    paths = JobPaths(Path(environ[RUN_DIR]))
    name, restarts = job_name(environ), int(environ.get("SLURM_RESTART_COUNT") or 0)
    begin(paths, name, restarts)
    ending: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGTERM:
            ending.append(number)

    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, note)
    process = subprocess.Popen(command)
    plan = _plan(paths)
    alone = environ.get("SLURM_JOB_NUM_NODES", "1") == "1"
    watch = DaemonWatch(environ.get("SLURM_JOB_ID", ""), alone=alone, over=lambda: plan is not None and all_over(paths, plan))
    lost, sruns = _wait(process, watch)
    if lost or process.poll() == 128 + signal.SIGKILL:
        # ranks that have lost their slurmstepd or torchrun may still be saving
        end_step(environ.get(JOB_TOKEN, ""), sruns, grace=plan["torchrun"]["shutdown_timeout"] if plan is not None else 10.0)
    returncode = process.wait()
    status = returncode if returncode >= 0 else 128 - returncode
    results = read_results(paths)
    if lost and plan is not None and len(results) == _world_size(plan) and all(result.ok for result in results.values()):
        return 0  # it was at its end
    nodes = int(environ.get("SLURM_JOB_NUM_NODES") or 1)
    stop = stop_of(StepEnd(status=status, results=results, told=told_by(paths.starter_log, nodes), lost=lost, nodes=nodes))
    if stop is None or plan is None:
        # of several nodes, srun's own signal to the tasks beside one that has failed
        echo = nodes > 1 and status - 128 in _ASKED and not ending
        return 1 if echo else status or int(bool(lost))
    time.sleep(_NOTICE_SECONDS)
    if ending:
        return status or 1  # SLURM itself is ending the job, and starts it again where that is asked for
    why_not = bound(plan["checkpoint"], restarts)
    if not why_not:
        most = plan["checkpoint"]["max_requeues"]
        say(f"{stop.why}{stop.saved}; back into the queue, restart {restarts + 1} of at most {most} (checkpoint.max_requeues)")
        why_not = requeue(name)
        if why_not:
            time.sleep(_NOTICE_SECONDS)  # scontrol is ended together with the rest of the job
        if ending or not why_not:
            _until_ended(ending)
            return PREEMPTED_STATUS
    say(f"{stop.why}{stop.saved}; not put back into the queue: {why_not}")
    with suppress(OSError):
        (paths.root / NOTE_FILE).write_text(f"{stop.why}; not put back into the queue: {why_not}\n", encoding="utf-8")
    return PREEMPTED_STATUS


def all_over(paths: JobPaths, plan: Mapping[str, Any]) -> bool:
    """Every rank has ended; or one not well, with which srun ends all others (--kill-on-bad-exit)."""
    results = read_results(paths)
    return len(results) == _world_size(plan) or any(not result.ok for result in results.values())


def job_name(environ: Mapping[str, str]) -> str:
    """12, or 12_3: of an array's last task SLURM_JOB_ID is the whole array's."""
    array, task = environ.get("SLURM_ARRAY_JOB_ID"), environ.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array and task else environ.get("SLURM_JOB_ID", "")


def begin(paths: JobPaths, name: str, restarts: int) -> None:
    """Write down that the job has started. Nothing of a start before is left that would be taken for this one's."""
    for left in paths.results.iterdir() if paths.results.is_dir() else ():
        left.unlink()
    set_aside(paths.starter_log)
    (paths.root / NOTE_FILE).unlink(missing_ok=True)
    with suppress(OSError):  # a full disk is the ranks' to tell
        (paths.root / START_FILE).write_text(f"{name} {restarts}\n", encoding="utf-8")


def requeue(name: str) -> str:
    """Empty, or why SLURM did not do it."""
    try:
        done = subprocess.run(["scontrol", "requeue", name], capture_output=True, text=True, timeout=_REQUEUE_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as problem:
        return f"scontrol requeue {name}: {problem}"
    if done.returncode == 0:
        return ""
    said = (done.stderr or done.stdout).strip().replace("\n", "; ")
    return f"scontrol requeue {name}: {said} (hydra.launcher.requeue=false, or the cluster does not allow it)"


def say(text: str) -> None:
    print(f"zerocfg: {text}", file=sys.stderr, flush=True)


def _wait(process: subprocess.Popen[bytes], watch: DaemonWatch) -> tuple[str, list[ProcessId]]:
    """Until the command has ended, or a slurmstepd has died: then of which host, and the srun processes that wait for it."""
    while process.poll() is None:
        time.sleep(_POLL_SECONDS)
        if sruns := watch.stuck():
            host = os.uname().nodename if watch.here else "another node"
            say(f"slurmstepd of {host} is gone, and srun has not noticed: ending the step")
            return host, sruns
    return "", []


def _until_ended(ending: Sequence[int]) -> None:
    deadline = time.monotonic() + _REQUEUE_SECONDS
    while not ending and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)


def _plan(paths: JobPaths) -> dict[str, Any] | None:
    """None: an app without zerocfg's groups."""
    try:
        return read_compiled(paths.root / COMPILED).plan
    except ZerocfgError:
        return None


def _world_size(plan: Mapping[str, Any]) -> int:
    return int(plan["topology"]["num_nodes"]) * int(plan["topology"]["nproc_per_node"])


def told_by(log: Path, nodes: int) -> int:
    """The signal that the torchrun of every node was sent; 0: not all were."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES * nodes))
            found = list(_TOLD.finditer(file.read().decode("utf-8", errors="replace")))
    except OSError:
        return 0
    return int(found[-1]["signal"]) if len({match["task"] for match in found}) >= nodes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
