"""Whole-process wall of `zerocfg compile` beside a process that only composes the same config with Hydra.

Both are started in turns, so that a busy machine slows both, and with their bytecode cached, as any installation has it.
`python benchmarks/compile_latency.py [--runs 15] [overrides...]`
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

from zerocfg.confsource import conf_dir

OVERRIDES = ["parallelism=zero3", "hardware=a100x4", "precision=bf16", "model=llama2_7b", "batch.global_batch_size=256"]
TARGET = 1.25

COMPOSE_ONLY = f"""
import sys
from hydra import compose, initialize_config_dir
with initialize_config_dir({str(conf_dir())!r}, version_base=None):
    compose("zerocfg", sys.argv[1:])
"""


def wall(command: list[str], environ: dict[str, str]) -> float:
    """Seconds from start to end of one process."""
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environ)
    return time.perf_counter() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=15, help="of each; one more of each goes first and is not counted")
    parser.add_argument("overrides", nargs="*", default=OVERRIDES)
    given = parser.parse_args()
    commands = {
        "compose only (Hydra)": [sys.executable, "-c", COMPOSE_ONLY, *given.overrides],
        "zerocfg compile": [sys.executable, "-m", "zerocfg", "compile", *given.overrides],
    }
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    with tempfile.TemporaryDirectory() as cache:
        environ = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | {"PYTHONPYCACHEPREFIX": cache}
        for command in commands.values():
            wall(command, environ)
        for _ in range(given.runs):
            for name, command in commands.items():
                seconds[name].append(wall(command, environ))
    print(" ".join(given.overrides))
    print(f"{'':24}{'median':>10}{'fastest':>10}   of {given.runs} runs, in turns")
    for name, walls in seconds.items():
        print(f"{name:24}{statistics.median(walls) * 1e3:>7.0f} ms{min(walls) * 1e3:>7.0f} ms")
    base, ours = seconds.values()
    ratio = statistics.median(ours) / statistics.median(base)
    paired = statistics.median(b / a for a, b in zip(base, ours, strict=True))
    print(f"ratio of medians {ratio:.2f}, median of the pairs' ratios {paired:.2f} (target: at most {TARGET})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
