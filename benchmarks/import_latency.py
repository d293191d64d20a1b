"""Whole-process wall of `zerocfg import` of one file of about 200 lines, and what it loads.

`python benchmarks/import_latency.py [--runs 15] [FILE]`
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from zerocfg.deepspeed.keys import all_keys

TARGET = 0.6
HEAVY = ("torch", "deepspeed", "hydra", "omegaconf")
SECTIONS = ("zero_optimization", "activation_checkpointing", "flops_profiler", "tensorboard", "wandb", "comms_logger", "autotuning")


def large_config(lines: int = 200) -> str:
    """DeepSpeed's own defaults, written out as people copy them, of at least so many lines."""
    config: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": 4,
        "bf16": {"enabled": True},
        "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": [0.9, 0.95], "weight_decay": 0.1}},
        "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 100, "total_num_steps": 10000}},
    }
    for key in all_keys():
        parts = key.path.split(".")
        if key.default is None or key.is_section or key.status != "live" or "*" in parts or parts[0].endswith("er"):
            continue
        node = config
        for part in parts[:-1]:
            node = node.setdefault(part, {})
        node[parts[-1]] = key.default
        if json.dumps(config, indent=2).count("\n") + 1 >= lines:
            break
    config["zero_optimization"]["stage"] = 3
    return json.dumps(config, indent=2)


def wall(command: list[str], environ: dict[str, str]) -> float:
    """Seconds from start to end of one process."""
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environ)
    return time.perf_counter() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=15, help="one more goes first and is not counted")
    parser.add_argument("file", nargs="?", help="default: DeepSpeed's own defaults, written out")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(given.file or f"{folder}/ds_config.json")
        if given.file is None:
            file.write_text(large_config())
        environ = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | {"PYTHONPYCACHEPREFIX": f"{folder}/cache"}
        command = [sys.executable, "-m", "zerocfg", "import", str(file)]
        wall(command, environ)
        walls = [wall(command, environ) for _ in range(given.runs)]
        code = (
            f"import sys; from zerocfg.cli import main; main(['import', {str(file)!r}]); print(*[m for m in {HEAVY} if m in sys.modules])"
        )
        loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()[-1]
        lines = len(file.read_text().splitlines())
    print(f"zerocfg import of {lines} lines, {given.runs} runs: median {statistics.median(walls):.3f} s, fastest {min(walls):.3f} s")
    print(f"target: under {TARGET} s; of {', '.join(HEAVY)} it loads: {loaded or 'none'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
