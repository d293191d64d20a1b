"""Predicted against measured GPU memory: the plans below, each trained for a few steps in processes of its own.

`python benchmarks/memory_accuracy.py [--gpus 2] [--hardware h200x2] [--only TEXT] [--json FILE]` runs train.py's GPT under the
compiled DeepSpeed JSON through torchrun and prints max_memory_allocated and max_memory_reserved beside `zerocfg.memory`.
`--dry-run` needs no GPU and prints the predictions alone.
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
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
GIB = 2**30
STEPS = 3
"""Optimizer steps: moments are made in the first, stage 3 prefetches from the second on."""
MEDIAN, LARGEST = 0.05, 0.12
"""Targets, of the error on allocated memory."""

GPT = ("model=gpt_1b3",)
LLAMA = (
    "model=llama3_8b",
    "model.name=llama_1b5",
    "model.num_hidden_layers=16",
    "model.hidden_size=2048",
    "model.num_attention_heads=32",
    "model.num_key_value_heads=8",
    "model.head_dim=64",
    "model.intermediate_size=8192",
    "model.sequence_length=2048",
)
"""Grouped-query attention, SwiGLU and a vocabulary of 128256: the dims of Llama 3.2 1B, the head untied."""
RECOMPUTE = "activation_checkpointing=full"


def micro(size: int, accumulation: int = 1) -> tuple[str, ...]:
    return f"batch.micro_batch_size={size}", f"batch.gradient_accumulation_steps={accumulation}"


CASES: dict[str, tuple[str, ...]] = {
    "gpt z0 b4": (*GPT, "parallelism=ddp", *micro(4)),
    "gpt z1 b8": (*GPT, "parallelism=zero1", *micro(8)),
    "gpt z1 b4 acc2": (*GPT, "parallelism=zero1", *micro(4, 2)),
    "gpt z1 b4 fp32-accum": (*GPT, "parallelism=zero1", "precision.grad_accum_dtype=fp32", *micro(4)),
    "gpt z1 b1 ckpt": (*GPT, "parallelism=zero1", RECOMPUTE, *micro(1)),
    "gpt z2 b16": (*GPT, "parallelism=zero2", *micro(16)),
    "gpt z2 b4 acc2 fp16": (*GPT, "parallelism=zero2", "precision=fp16", *micro(4, 2)),
    "gpt z2 b8 ckpt": (*GPT, "parallelism=zero2", RECOMPUTE, *micro(8)),
    "gpt z2 b4 bf16-states": (*GPT, "parallelism=zero2", "precision=bf16_lowmem", *micro(4)),
    "gpt z2 b4 offload": (*GPT, "parallelism=zero2", "offload=optimizer", *micro(4)),
    "gpt z3 b4": (*GPT, "parallelism=zero3", *micro(4)),
    "gpt z3 b16": (*GPT, "parallelism=zero3", *micro(16)),
    "gpt z3 b32 ckpt": (*GPT, "parallelism=zero3", RECOMPUTE, *micro(32)),
    "gpt z3 b2 tf32": (*GPT, "parallelism=zero3", "precision=tf32", *micro(2)),
    "gpt z3 b4 by module": (*GPT, "parallelism=zero3", "parallelism.leaf_module_classes=[]", *micro(4)),
    "gpt z3 b8 ckpt offload-all": (*GPT, "parallelism=zero3", "offload=all", RECOMPUTE, *micro(8)),
    "llama z0 b1": (*LLAMA, "parallelism=ddp", *micro(1)),
    "llama z1 b4": (*LLAMA, "parallelism=zero1", *micro(4)),
    "llama z2 b8 ckpt": (*LLAMA, "parallelism=zero2", RECOMPUTE, *micro(8)),
    "llama z3 b2": (*LLAMA, "parallelism=zero3", *micro(2)),
    "llama z3 b16 ckpt": (*LLAMA, "parallelism=zero3", RECOMPUTE, *micro(16)),
    "llama z3 b4 acc2 offload": (*LLAMA, "parallelism=zero3", "offload=optimizer", *micro(4, 2)),
    "llama z3 b1 lion": (*LLAMA, "parallelism=zero3", "optimizer=lion", *micro(1)),
}


@dataclass
class Result:
    case: str
    predicted: dict[str, Any]
    measured: dict[str, Any] = field(default_factory=dict)
    problem: str = ""

    def error(self, name: str) -> float:
        return float(self.predicted[f"peak_{name}_bytes"]) / float(self.measured[name]) - 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--hardware", default="h200x2", help="option of the group hardware; its number of GPUs is replaced")
    parser.add_argument("--only", default="", help="cases whose name contains this; several by commas")
    parser.add_argument("--timeout", type=float, default=240, help="seconds a case")
    parser.add_argument("--json", type=Path, help="write predictions and measurements to this file, as they come")
    parser.add_argument("--dry-run", action="store_true", help="predictions only")
    parser.add_argument("overrides", nargs="*", help="for every case")
    given = parser.parse_args()
    wanted = [text for text in given.only.split(",") if text]
    names = [name for name in CASES if not wanted or any(text in name for text in wanted)]
    results = []
    print(HEAD if not given.dry_run else DRY_HEAD)
    for name in names:
        overrides = (*CASES[name], f"hardware={given.hardware}", f"hardware.gpus_per_node={given.gpus}", *given.overrides)
        result = one(name, overrides, given)
        results.append(result)
        print(line(result, given.dry_run), flush=True)
        if given.json:
            given.json.write_text(json.dumps([vars(r) for r in results], indent=1), encoding="utf-8")
    return 0 if given.dry_run else summary(results)


def one(name: str, overrides: tuple[str, ...], given: argparse.Namespace) -> Result:
    from zerocfg.compiler import compile_run
    from zerocfg.compose import compose
    from zerocfg.memory import estimate

    run = compile_run(compose(list(overrides), config_path=str(ROOT / "conf"), config_name="zerocfg").container)
    # as detected: what the driver keeps of the nominal memory is not what is measured here
    found = estimate(replace(run.plan, detected=True))
    result = Result(name, found.as_dict() | {"phase_moments": {m.phase + ": " + m.name: m.total for m in found.moments}})
    if given.dry_run:
        return result
    with tempfile.TemporaryDirectory() as folder:
        task, out = Path(folder, "task.json"), Path(folder, "out.json")
        plan = run.plan
        assert plan.model is not None
        task.write_text(
            json.dumps(
                {
                    "deepspeed": run.deepspeed,
                    "model": {name: getattr(plan.model, name) for name in plan.model.__slots__},
                    "dtype": plan.precision.dtype,
                    "stage": plan.zero.stage,
                    "leaf": plan.zero.find_leaf_modules,
                    "checkpointing": plan.activation_checkpointing.enabled,
                    "micro": plan.batch.micro_batch_size,
                    "accumulation": plan.batch.gradient_accumulation_steps,
                    "out": str(out),
                }
            ),
            encoding="utf-8",
        )
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(given.gpus), __file__]
        start = time.perf_counter()
        try:
            done = subprocess.run(
                [*command, "--rank", str(task)],
                env={**os.environ, **run.environment, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=given.timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            result.problem = f"no end after {given.timeout:.0f} s"
            return result
        if out.exists():
            result.measured = json.loads(out.read_text(encoding="utf-8")) | {"seconds": time.perf_counter() - start}
        else:
            result.problem = "out of memory" if "OutOfMemoryError" in done.stdout else done.stdout[-1500:]
    return result


HEAD = (
    f"{'':28}{'allocated, GiB':^28}{'reserved, GiB':^28}{'outside, GiB':^16}\n"
    f"{'case':28}{'predicted':>10}{'measured':>10}{'error':>8}{'predicted':>10}{'measured':>10}{'error':>8}{'pred.':>8}{'meas.':>8}"
    f"  {'predicted peak':30}by phase, measured (predicted)"
)
DRY_HEAD = f"{'case':28}{'allocated':>10}{'reserved':>10}{'outside':>9} GiB  {'fits':6}{'peak':32}largest parts"


def line(result: Result, dry: bool) -> str:
    p = result.predicted
    peak = f"{p['phase']}: {p['moment']}"
    if dry:
        parts = sorted(p["parts"].items(), key=lambda item: -item[1])[:4]
        shown = ", ".join(f"{name} {size / GIB:.1f}" for name, size in parts)
        sizes = f"{p['peak_allocated_bytes'] / GIB:>10.2f}{p['peak_reserved_bytes'] / GIB:>10.2f}{p['context_bytes'] / GIB:>9.2f}"
        return f"{result.case:28}{sizes}      {'yes' if p['fits'] else 'no':6}{peak:32}{shown}"
    if not result.measured:
        return f"{result.case:28}{p['peak_allocated_bytes'] / GIB:>10.2f}  {result.problem}"
    m = result.measured
    text = f"{result.case:28}"
    for name in ("allocated", "reserved"):
        text += f"{p[f'peak_{name}_bytes'] / GIB:>10.2f}{m[name] / GIB:>10.2f}{result.error(name):>+8.1%}"
    text += f"{p['context_bytes'] / GIB:>8.2f}{m['outside'] / GIB:>8.2f}  {peak:30}"
    return text + ", ".join(f"{phase} {size / GIB:.2f} ({p['phases'][phase] / GIB:.2f})" for phase, size in m["phases"].items())


def summary(results: list[Result]) -> int:
    ran = [r for r in results if r.measured]
    surprised = [r for r in results if not r.measured and r.predicted["fits"]]
    if not ran:
        print("\nnothing ran")
        return 1
    ok = not surprised
    print()
    for name in ("allocated", "reserved"):
        errors = [abs(r.error(name)) for r in ran]
        print(f"{name:10} median error {statistics.median(errors):.1%}, largest {max(errors):.1%}, {len(ran)} of {len(results)} cases")
        if name == "allocated":
            ok = ok and statistics.median(errors) <= MEDIAN and max(errors) <= LARGEST
    ratios: dict[int, list[float]] = {}
    for r in ran:
        ratios.setdefault(r.measured["stage"], []).append(r.measured["reserved"] / r.measured["allocated"])
    print("reserved over allocated by stage: " + ", ".join(f"{stage}: {statistics.median(v):.3f}" for stage, v in sorted(ratios.items())))
    for r in surprised:
        print(f"predicted to fit, and did not end well: {r.case}")
    print(f"targets (median {MEDIAN:.0%}, largest {LARGEST:.0%} on allocated, no case that fits fails): {'met' if ok else 'not met'}")
    return 0 if ok else 1


def rank(task_file: str) -> None:
    """One rank of one case."""
    import importlib.util
    from types import SimpleNamespace

    import deepspeed
    import torch

    task = json.loads(Path(task_file).read_text(encoding="utf-8"))
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    deepspeed.init_distributed(dist_backend="nccl", verbose=False)
    spec = importlib.util.spec_from_file_location("train_example", ROOT / "train.py")
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    dims = SimpleNamespace(**task["model"])
    dtype = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[task["dtype"]]
    config = {**task["deepspeed"], "steps_per_print": 10**9}
    phases: dict[str, int] = {}

    def checkpoint(function: Any, *args: Any) -> Any:
        return deepspeed.checkpointing.checkpoint(function, *args) if task["checkpointing"] else function(*args)

    def mark(phase: str) -> None:
        phases[phase] = max(phases.get(phase, 0), torch.cuda.max_memory_allocated())
        torch.cuda.reset_peak_memory_stats()

    if task["stage"] == 3:
        with deepspeed.zero.Init(config_dict_or_path=config, dtype=dtype):
            model = example.GPT(dims, checkpoint)
    else:
        torch.set_default_dtype(dtype)
        with torch.device("cuda", local):
            model = example.GPT(dims, checkpoint)
        torch.set_default_dtype(torch.float32)
    if task["leaf"]:
        deepspeed.utils.set_z3_leaf_modules(model, [example.Block])
    if task["checkpointing"]:
        deepspeed.checkpointing.configure(None, deepspeed_config=config)
    engine, *_ = deepspeed.initialize(model=model, config=config, model_parameters=list(model.parameters()))
    mark("init")
    reserved = 0
    generator = torch.Generator().manual_seed(int(os.environ["RANK"]))
    shape = (task["micro"], dims.sequence_length)
    for _ in range(STEPS):
        for _ in range(task["accumulation"]):
            tokens, targets = (torch.randint(dims.vocab_size, shape, generator=generator).cuda() for _ in range(2))
            loss = engine(tokens, targets)
            reserved = max(reserved, torch.cuda.max_memory_reserved())
            mark("forward")
            engine.backward(loss)
            reserved = max(reserved, torch.cuda.max_memory_reserved())
            mark("backward")
            engine.step()
            reserved = max(reserved, torch.cuda.max_memory_reserved())
            mark("step")
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    own = {
        "stage": task["stage"],
        "allocated": max(phases.values()),
        "reserved": reserved,
        # what is taken of the card besides torch's allocator: context, kernels, NCCL (and other processes, if there are any)
        "outside": total - free - torch.cuda.memory_reserved(),
        "phases": phases,
        "resident": torch.cuda.memory_allocated(),
    }
    everyone: list[Any] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(everyone, own)
    if torch.distributed.get_rank() == 0:
        found = max(everyone, key=lambda r: r["allocated"])
        Path(task["out"]).write_text(json.dumps(found), encoding="utf-8")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        rank(sys.argv[2])
        sys.exit(0)
    sys.exit(main())
