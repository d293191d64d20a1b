"""Stage 3 three ways on one model: zerocfg's plan, DeepSpeed's own defaults, PyTorch's FSDP2.

`python benchmarks/zero3_speed.py [--gpus 2] [--hardware h200x2] [--micro 4,16] [--vary [NAMES]] [overrides]`: one after the other, each
in fresh processes. --vary: instead of the other two, our plan with one thing changed (all of VARIANTS, or those named): what each is worth.
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


def with_zero(**keys: Any) -> dict[str, Any]:
    return {"zero": keys}


VARIANTS: dict[str, dict[str, Any]] = {
    "no leaf modules": {"leaf": False},
    "DeepSpeed's live and reuse": with_zero(stage3_max_live_parameters=1_000_000_000, stage3_max_reuse_distance=1_000_000_000),
    "DeepSpeed's linear": with_zero(memory_efficient_linear=True),
    "DeepSpeed's prefetch": with_zero(stage3_prefetch_bucket_size=50_000_000),
    "nothing persistent": with_zero(stage3_param_persistence_threshold=0),
    "all persistent": with_zero(stage3_param_persistence_threshold=10**12),
    "no overlap": with_zero(overlap_comm=False),
    "a bucket for all": with_zero(reduce_bucket_size=2_000_000_000),
    "gradients not contiguous": with_zero(contiguous_gradients=False),
    # below any module's granularity: our leaf modules stay, and are fetched without waiting for events (parameter_offload.py:202)
    "DeepSpeed's fast leaf path": with_zero(stage3_module_granularity_threshold=1),
    "all persistent, no overlap": with_zero(stage3_param_persistence_threshold=10**12, overlap_comm=False),
    "one bucket, no overlap, not contiguous": with_zero(reduce_bucket_size=2_000_000_000, overlap_comm=False, contiguous_gradients=False),
    "no garbage to collect": {"freeze": True},
    "DeepCompile": {"leaf": False, "deepspeed": {"compile": {"deepcompile": True}}, "compiling_steps": 10},
}
"""Name: what is other in the task, in its JSON, in its zero_optimization."""


def varied(task: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    zero, top = change.get("zero", {}), change.get("deepspeed", {})
    config = {**task["deepspeed"], **top, "zero_optimization": {**task["deepspeed"]["zero_optimization"], **zero}}
    return {**task, **{key: value for key, value in change.items() if key != "zero"}, "deepspeed": config}


def vary(tasks: list[dict[str, Any]], names: list[str], given: argparse.Namespace) -> int:
    rows = ["ours", *names, "ours again"]
    changes = [{}, *(VARIANTS[name] for name in names), {}]
    results = run_all([varied(task, change) for task in tasks for change in changes], given.gpus, given.timeout, given.alone)
    print(f"{'micro batch':13}{'variant':40}{'tokens/s a GPU':>15}{'over ours':>11}{'s a step':>10}{'host s':>8}{'GiB':>7}{'loss':>9}")
    for task in tasks:
        first = 0.0
        for name in rows:
            r = next(results)
            if "problem" in r:
                print(f"{task['micro']:<13}{name:40}{r['problem'][-300:]}")
                continue
            speed = r["tokens_per_s_per_gpu"]
            first = first or speed
            times = f"{r['seconds_per_step']:>10.3f}{r['host_seconds_per_step']:>8.3f}"
            print(
                f"{task['micro']:<13}{name:40}{speed:>15,.0f}{speed / first:>11.2f}{times}{r['allocated'] / 2**30:>7.1f}{r['loss']:>9.3f}",
                flush=True,
            )
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--hardware", default="h200x2")
    parser.add_argument("--micro", default="4,16")
    parser.add_argument("--alone", action="store_true", help="one GPU: rank 0 of --gpus, with collectives that end at once")
    parser.add_argument("--timeout", type=float, default=90, help="seconds an engine")
    parser.add_argument("--vary", nargs="?", const="", help="names of variants by ';'; none: all")
    parser.add_argument("overrides", nargs="*", default=[])
    given = parser.parse_args()
    sizes = [int(size) for size in given.micro.split(",")]
    base = given.overrides or ["model=gpt_1b3"]
    plan = [f"hardware={given.hardware}", f"hardware.gpus_per_node={given.gpus}", "parallelism=zero3", *base]
    tasks = [task_of([*plan, f"batch.micro_batch_size={size}"]) for size in sizes]
    if given.vary is not None:
        names = given.vary.split(";") if given.vary else list(VARIANTS)
        if unknown := [name for name in names if name not in VARIANTS]:
            parser.error(f"no such variant: {'; '.join(unknown)}\nthere are: {'; '.join(VARIANTS)}")
        return vary(tasks, names, given)
    three = [each for ours in tasks for each in (ours, plain(ours), {**ours, "fsdp2": True})]
    results = list(run_all(three, given.gpus, given.timeout, given.alone))
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
