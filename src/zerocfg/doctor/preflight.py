"""On each node before training: python -m zerocfg.doctor.preflight COMMAND, where COMMAND names the launch.sh.

Runs the same command with preflight.sh in its place; where all nodes are fit, becomes the command. See launch/fitness.py.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from zerocfg.diagnostics import has_errors, in_order, render_report
from zerocfg.doctor.node_check import Record
from zerocfg.doctor.verdict import summary, verdict
from zerocfg.emit import COMPILED, LAUNCH, RDZV_ID, RDZV_PORT, RUN_DIR, read_compiled, replace_text
from zerocfg.errors import ZerocfgError
from zerocfg.launch.fitness import PREFLIGHT_SCRIPT
from zerocfg.launch.paths import PREFLIGHT, JobPaths
from zerocfg.launch.slurm_node import free_port
from zerocfg.passes.lower.slurm import STEP_LOG

DEADLINE_SECONDS = 300.0
_GRACE_SECONDS = 60.0
"""From the request to end until SIGKILL: torchrun gives its ranks half of it."""


def main(command: Sequence[str]) -> int:
    """Does not return where all nodes are fit: this process becomes the command. Exit status 1 else."""
    paths = JobPaths(Path(os.environ[RUN_DIR]))
    forget(paths)
    process = subprocess.Popen(
        instead(command),
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )

    def stop(number: int, frame: FrameType | None) -> None:
        process.send_signal(number)
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGUSR2)}
    try:
        said = process.communicate(timeout=DEADLINE_SECONDS)[0]
    except subprocess.TimeoutExpired:
        said = f"{_end(process)}\nnot done after {DEADLINE_SECONDS:.0f} s\n"
    except SystemExit:
        process.wait()
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    lines = [*said.splitlines(), *node_lines(paths)]
    print("\n".join(lines))
    if judge(paths, ended=process.returncode == 0, said=lines):
        sys.stdout.flush()
        os.execvp(command[0], list(command))
    return 1


def _end(process: subprocess.Popen[str]) -> str:
    process.terminate()
    try:
        return process.communicate(timeout=_GRACE_SECONDS)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[0]


def forget(paths: JobPaths) -> None:
    """What an earlier start of the same job has found: SLURM may run its script again."""
    paths.preflight.mkdir(parents=True, exist_ok=True)
    for stale in (*paths.preflight.glob("rank_*.json"), *paths.preflight.glob("*.log"), paths.preflight_report):
        stale.unlink(missing_ok=True)


def instead(command: Sequence[str]) -> list[str]:
    """The command with preflight.sh for launch.sh. An srun gets a log a node: one log of all comes through srun, which loses the last
    words of a task that takes the others with it."""
    logs = {f"--output={STEP_LOG}": f"--output={PREFLIGHT}/%N.log"}
    return [_with_preflight(logs.get(word, word)) for word in command if word != "--label"]


def node_lines(paths: JobPaths) -> list[str]:
    """What each node's task of an srun said, behind the node's name."""
    logs = sorted(paths.preflight.glob("*.log"))
    return [f"{log.stem}: {line}" for log in logs for line in log.read_text(encoding="utf-8", errors="replace").splitlines()]


def _with_preflight(word: str) -> str:
    folder, slash, name = word.rpartition("/")
    return f"{folder}{slash}{PREFLIGHT_SCRIPT}" if name == LAUNCH else word


def environment() -> dict[str, str]:
    """The rendezvous is another one than that of the training, which follows on its heels. Raises ConfigProblems (ZC731)."""
    env = dict(os.environ)
    if RDZV_PORT in env:
        # this runs on the first host, where the nodes meet
        env[RDZV_PORT] = str(free_port(int(env[RDZV_PORT]) + 1))
    env[RDZV_ID] = env.get(RDZV_ID, "zerocfg") + ".preflight"
    return env


def judge(paths: JobPaths, *, ended: bool, said: Sequence[str]) -> bool:
    """Whether all nodes are fit. Errors go to .zerocfg/preflight/report.txt too, which the launcher quotes."""
    topology = read_compiled(paths.root / COMPILED).plan["topology"]
    world = int(topology["num_nodes"]) * int(topology["nproc_per_node"])
    records = read_records(paths)
    if int(topology["num_nodes"]) == 1:
        # in a container a host may have a name of its own
        records = {rank: dataclasses.replace(record, host=socket.gethostname()) for rank, record in records.items()}
    found = in_order(verdict(records, world, ended=ended and len(records) == world, said=() if ended else said))
    if found:
        print(render_report(found), flush=True)
    if has_errors(found):
        replace_text(paths.preflight_report, render_report(found) + "\n")
        return False
    print(summary(records), flush=True)
    return True


def read_records(paths: JobPaths) -> dict[int, Record]:
    records: dict[int, Record] = {}
    for file in sorted(paths.preflight.glob("rank_*.json")):
        try:
            record = Record(**json.loads(file.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            continue
        records[record.rank] = record
    return dict(sorted(records.items()))


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except ZerocfgError as error:
        sys.exit(str(error))
