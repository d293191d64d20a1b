"""Stage 3 three ways on one model: zerocfg's plan, DeepSpeed's own defaults, PyTorch's FSDP2.

`python benchmarks/zero3_speed.py [--gpus 2] [--hardware h200x2] [--micro 4,16] [overrides]`: one after the other, each in fresh processes.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from many_engines import run_all, task_of

DEFAULTS_TARGET, FSDP2_TARGET = 1.6, 0.8
"""At the smallest micro batch: ours over DeepSpeed's defaults; everywhere: ours over FSDP2."""


def plain(task: dict[str, Any]) -> dict[str, Any]:
    """The same run as someone writes it who only says stage 3."""
    config = dict(task["deepspeed"])
    config["zero_optimization"] = {"stage": 3}
    return {**task, "deepspeed": config, "leaf": False}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--hardware", default="h200x2")
    parser.add_argument("--micro", default="4,16")
    parser.add_argument("--timeout", type=float, default=90, help="seconds an engine")
    parser.add_argument("overrides", nargs="*", default=[])
    given = parser.parse_args()
    sizes = [int(size) for size in given.micro.split(",")]
    base = given.overrides or ["model=gpt_1b3"]
    tasks: list[dict[str, Any]] = []
    for size in sizes:
        ours = task_of(
            [
                f"hardware={given.hardware}",
                f"hardware.gpus_per_node={given.gpus}",
                "parallelism=zero3",
                f"batch.micro_batch_size={size}",
                *base,
            ]
        )
        tasks += [ours, plain(ours), {**ours, "fsdp2": True}]
    results = run_all(tasks, given.gpus, given.timeout)
    head = f"{'micro batch':12}{'ours':>20}{'DeepSpeed defaults':>20}{'FSDP2':>20}"
    print(f"{head}{'over defaults':>15}{'over FSDP2':>12}   tokens/s a GPU, GiB")
    ok = True
    for i, size in enumerate(sizes):
        trio = results[3 * i : 3 * i + 3]
        speeds = [r.get("tokens_per_s_per_gpu", 0.0) for r in trio]
        cells = "".join(f"{s:>12,.0f}{r.get('allocated', 0) / 2**30:>8.1f}" for s, r in zip(speeds, trio, strict=True))
        ratios = [speeds[0] / other if other else 0.0 for other in speeds[1:]]
        print(f"{size:<12}{cells}{ratios[0]:>15.2f}{ratios[1]:>12.2f}")
        for name, result in zip(("ours", "defaults", "FSDP2"), trio, strict=True):
            if "problem" in result:
                print(f"  {name}: {result['problem']}")
        ok = ok and ratios[1] >= FSDP2_TARGET and (i > 0 or ratios[0] >= DEFAULTS_TARGET)
    print(f"targets ({DEFAULTS_TARGET} x defaults at micro batch {sizes[0]}, {FSDP2_TARGET} x FSDP2): {'met' if ok else 'not met'}")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
