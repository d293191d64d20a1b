"""On each node before training: python -m zerocfg.doctor.preflight COMMAND, where COMMAND names the launch.sh.

Runs the same command with preflight.sh in its place; where all nodes are fit, becomes the command. See launch/fitness.py.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from zerocfg.diagnostics import has_errors, in_order, render_report
from zerocfg.doctor.node_check import Record
from zerocfg.doctor.verdict import summary, verdict
from zerocfg.emit import COMPILED, LAUNCH, RDZV_ID, RDZV_PORT, RUN_DIR, read_compiled, replace_text
from zerocfg.launch.fitness import PREFLIGHT_SCRIPT
from zerocfg.launch.paths import JobPaths

DEADLINE_SECONDS = 300.0
_TAIL = 12


def main(command: Sequence[str]) -> int:
    """Does not return where all nodes are fit: this process becomes the command. Exit status 1 else."""
    paths = JobPaths(Path(os.environ[RUN_DIR]))
    process = subprocess.Popen(
        [_with_preflight(word) for word in command],
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
        process.terminate()
        said = process.communicate()[0]
    except SystemExit:
        process.wait()
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    print(said, end="")
    if judge(paths, ended=process.returncode == 0, said=said.splitlines()):
        sys.stdout.flush()
        os.execvp(command[0], list(command))
    return 1


def _with_preflight(word: str) -> str:
    folder, slash, name = word.rpartition("/")
    return f"{folder}{slash}{PREFLIGHT_SCRIPT}" if name == LAUNCH else word


def environment() -> dict[str, str]:
    """The rendezvous is another one than that of the training, which follows on its heels."""
    env = dict(os.environ)
    if RDZV_PORT in env:
        env[RDZV_PORT] = str(int(env[RDZV_PORT]) + 1)
    env[RDZV_ID] = env.get(RDZV_ID, "zerocfg") + ".preflight"
    return env


def judge(paths: JobPaths, *, ended: bool, said: Sequence[str]) -> bool:
    """Whether all nodes are fit. Errors go to .zerocfg/preflight/report.txt too, which the launcher quotes."""
    topology = read_compiled(paths.root / COMPILED).plan["topology"]
    world = int(topology["num_nodes"]) * int(topology["nproc_per_node"])
    records = read_records(paths)
    tail = [line.rstrip() for line in said if line.strip()][-_TAIL:] if not ended else []
    found = in_order(verdict(records, world, ended=ended and len(records) == world, said=tail))
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
    sys.exit(main(sys.argv[1:]))
