"""A sweep of 100 jobs into SLURM: how often sbatch is called, and how long until the shell is free again.

Each job is composed, compiled, checked, has its folder written and is submitted; nothing is waited for, and all jobs are cancelled
at the end. On a cluster: `python benchmarks/sweep_submit.py`; on the test cluster, from tests/:
`python -m slurm.cluster python ../benchmarks/sweep_submit.py`
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

APP = """
import hydra

@hydra.main(version_base=None, config_path=".", config_name="config")
def main(cfg):
    return 0.0

if __name__ == "__main__":
    main()
"""
CONFIG = """
defaults: [zerocfg, _self_, {override hydra/launcher: zerocfg_slurm}, {override hardware: cpu}]
hydra: {sweep: {dir: out}, launcher: {wait: false}}
"""


def counting_sbatch(folder: Path) -> Path:
    """A folder for PATH with an sbatch that notes each call and its seconds, then calls the real one."""
    real, notes = shutil.which("sbatch"), folder / "calls"
    assert real is not None
    (folder / "bin").mkdir()
    script = folder / "bin/sbatch"
    script.write_text(f'#!/bin/bash\nt=$EPOCHREALTIME\n{real} "$@"; status=$?\necho "$t $EPOCHREALTIME" >>{notes}\nexit $status\n')
    script.chmod(0o755)
    return folder / "bin"


def sweep(folder: Path, overrides: list[str], jobs: int) -> None:
    bin_folder = counting_sbatch(folder)
    (folder / "app.py").write_text(APP)
    (folder / "config.yaml").write_text(CONFIG)
    environ = {**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}"}
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "app.py", *overrides], cwd=folder, env=environ, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - began
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    calls = [line.split() for line in (folder / "calls").read_text().splitlines()]
    in_sbatch = sum(float(end) - float(start) for start, end in calls)
    ids = re.findall(r"submitted as SLURM (?:array|job) (\d+)", done.stdout)
    queued = subprocess.run(
        ["squeue", "--array", "--noheader", "--states=all", f"--jobs={','.join(ids)}"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    subprocess.run(["scancel", *ids], check=False)
    assert len(queued) == jobs, f"{len(queued)} jobs in the queue"
    print(
        f"{jobs:>5} jobs  {len(calls):>3} sbatch calls  {seconds:6.1f} s in all  {in_sbatch:5.2f} s in sbatch"
        f"  {seconds / jobs * 1e3:6.0f} ms a job   {' '.join(overrides)}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=100)
    jobs = parser.parse_args().jobs
    if shutil.which("sbatch") is None:
        sys.exit("no sbatch on this machine; see this file's head for the test cluster")
    half = jobs // 2
    for count, overrides in (
        (1, ["train.steps=1"]),
        (jobs, [f"train.seed=range({jobs})"]),
        # two shapes: one and two nodes
        (2 * half, [f"train.seed=range({half})", "hardware.num_nodes=1,2"]),
    ):
        # a shared folder where nodes have a /tmp of their own: run it from one
        with tempfile.TemporaryDirectory(prefix="sweep-", dir=os.getcwd()) as folder:
            sweep(Path(folder), overrides, count)
    return 0


if __name__ == "__main__":
    sys.exit(main())
