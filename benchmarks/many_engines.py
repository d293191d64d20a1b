"""Several engines one after the other in the same processes: what plan_quality.py and zero3_speed.py time, memory_accuracy.py weighs.

A task is plain data: model (dims), dtype, stage, checkpointing, micro, accumulation, deepspeed (the JSON) or fsdp2, leaf, and
measure: "speed" or "memory".
"""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zerocfg.artifact import CompiledRun

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src")]
WARM_UP, TIMED = 3, 5
"""Optimizer steps of a speed."""
WEIGHED = 3
"""Optimizer steps of a memory: moments are made in the first, stage 3 prefetches from the second on."""


def task_of(overrides: Sequence[str], **more: Any) -> dict[str, Any]:
    """A compiled plan as a task. Raises ConfigProblems."""
    from zerocfg.compiler import compile_run
    from zerocfg.compose import compose
    from zerocfg.planner import decide

    return task_of_run(
        compile_run(compose(list(overrides), config_path=str(ROOT / "conf"), config_name="zerocfg").container, decide=decide), **more
    )


def task_of_run(run: CompiledRun, **more: Any) -> dict[str, Any]:
    plan = run.plan
    assert plan.model is not None
    return {
        "deepspeed": dict(run.deepspeed),
        "environment": dict(run.environment),
        "model": {name: getattr(plan.model, name) for name in plan.model.__slots__},
        "dtype": plan.precision.dtype,
        "stage": plan.zero.stage,
        "leaf": plan.zero.find_leaf_modules,
        "checkpointing": plan.activation_checkpointing.enabled,
        "micro": plan.batch.micro_batch_size,
        "accumulation": plan.batch.gradient_accumulation_steps,
        "measure": "speed",
        **more,
    }


def run_all(tasks: Sequence[Mapping[str, Any]], gpus: int, timeout: float) -> list[dict[str, Any]]:
    """One torchrun for all tasks. Each result: what its measure returns and seconds (all of it), or problem."""
    with tempfile.TemporaryDirectory() as folder:
        given, out = Path(folder, "tasks.json"), Path(folder, "out.jsonl")
        given.write_text(json.dumps(list(tasks)), encoding="utf-8")
        environment = {**os.environ, **tasks[0].get("environment", {})}
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(gpus), __file__]
        tail = ""
        try:
            done = subprocess.run(
                [*command, str(given), str(out)],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=timeout,
                check=False,
            )
            tail = "" if done.returncode == 0 else done.stdout[-1500:]
        except subprocess.TimeoutExpired:
            tail = f"no end after {timeout:.0f} s"
        results = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()] if out.exists() else []
        # a crash takes the tasks behind it along
        return results + [{"problem": tail or "not run"} for _ in tasks[len(results) :]]


def rank(tasks_file: str, out_file: str) -> None:
    import deepspeed
    import torch

    cuda = torch.cuda.is_available()
    local = int(os.environ["LOCAL_RANK"])
    if cuda:
        torch.cuda.set_device(local)
    else:
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.init_distributed(dist_backend="nccl" if cuda else "gloo", verbose=False)
    device = torch.device("cuda", local) if cuda else torch.device("cpu")
    for task in json.loads(Path(tasks_file).read_text(encoding="utf-8")):
        begun = time.perf_counter()
        try:
            result = MEASURES[task["measure"]](task, device)
        except Exception as error:  # the next plan may do
            result = {"problem": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:300]}
        result["seconds"] = time.perf_counter() - begun
        free(cuda)
        if torch.distributed.get_rank() == 0:
            with open(out_file, "a", encoding="utf-8") as out:
                out.write(json.dumps(result) + "\n")
    torch.distributed.destroy_process_group()


def free(cuda: bool) -> None:
    import torch

    gc.collect()
    if cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    torch.distributed.barrier()


def timed(task: Mapping[str, Any], device: Any) -> dict[str, Any]:
    """Train for a few steps. All of the engine is dropped with this frame."""
    import torch

    step = fsdp2(task, device) if task.get("fsdp2") else stepper(task, deepspeed_engine(task, device))
    next_batch = batches_of(task, device)
    batches = [next_batch() for _ in range(2)]

    def wait() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize()
        torch.distributed.barrier()

    for _ in range(WARM_UP):
        loss = step(batches)
    wait()
    start = time.perf_counter()
    for _ in range(TIMED):
        loss = step(batches)
    wait()
    took = (time.perf_counter() - start) / TIMED
    tokens = task["micro"] * task["accumulation"] * task["model"]["sequence_length"]
    memory = torch.cuda.max_memory_allocated() if device.type == "cuda" else 0
    return {"tokens_per_s_per_gpu": tokens / took, "seconds_per_step": took, "allocated": memory, "loss": float(loss)}


def weighed(task: Mapping[str, Any], device: Any) -> dict[str, Any]:
    """Bytes of the rank that took most: allocated, reserved, their phases; outside: of the card besides torch's allocator."""
    import torch

    before = torch.cuda.memory_allocated()
    phases: dict[str, int] = {}
    reserved = 0

    def mark(phase: str) -> None:
        nonlocal reserved
        reserved = max(reserved, torch.cuda.max_memory_reserved())
        phases[phase] = max(phases.get(phase, 0), torch.cuda.max_memory_allocated())
        torch.cuda.reset_peak_memory_stats()

    engine = deepspeed_engine(task, device)
    mark("init")
    reserved = 0  # what loading took is given back by the allocator when it is short
    next_batch = batches_of(task, device)
    for _ in range(WEIGHED * task["accumulation"]):
        loss = engine(*next_batch())
        mark("forward")
        engine.backward(loss)
        mark("backward")
        engine.step()
        mark("step")
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    own = {
        "allocated": max(phases.values()),
        "reserved": reserved,
        "outside": total - free - torch.cuda.memory_reserved(),
        "phases": phases,
        "resident": torch.cuda.memory_allocated(),
        "before": before,
    }
    everyone: list[Any] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(everyone, own)
    found: dict[str, Any] = max(everyone, key=lambda r: r["allocated"])
    return found


MEASURES: dict[str, Callable[[Mapping[str, Any], Any], dict[str, Any]]] = {"speed": timed, "memory": weighed}


def batches_of(task: Mapping[str, Any], device: Any) -> Callable[[], tuple[Any, Any]]:
    import torch

    generator = torch.Generator().manual_seed(torch.distributed.get_rank())
    shape = (task["micro"], task["model"]["sequence_length"])

    def batch() -> tuple[Any, Any]:
        tokens, targets = (torch.randint(task["model"]["vocab_size"], shape, generator=generator).to(device) for _ in range(2))
        return tokens, targets

    return batch


def example() -> Any:
    spec = importlib.util.spec_from_file_location("train_example", ROOT / "train.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["train_example"] = module
    spec.loader.exec_module(module)
    return module


def build(task: Mapping[str, Any], device: Any, dtype: Any, checkpoint: Any) -> Any:
    import torch

    torch.set_default_dtype(dtype)
    try:
        with device:
            return example().GPT(SimpleNamespace(**task["model"]), checkpoint)
    finally:
        torch.set_default_dtype(torch.float32)


def deepspeed_engine(task: Mapping[str, Any], device: Any) -> Any:
    import deepspeed
    import torch

    from zerocfg.runtime.leaf import mark_leaf_modules

    dtype = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[task["dtype"]]
    config = {**task["deepspeed"], "steps_per_print": 10**9}

    def checkpoint(function: Any, *args: Any) -> Any:
        if not task["checkpointing"]:
            return function(*args)
        return deepspeed.checkpointing.checkpoint(
            lambda *tensors: function(*tensors, *args[len(tensors) :]), *(a for a in args if a is not None)
        )

    if task["stage"] == 3:
        with deepspeed.zero.Init(config_dict_or_path=config, dtype=dtype):
            model = example().GPT(SimpleNamespace(**task["model"]), checkpoint)
        if task["leaf"]:
            mark_leaf_modules(model)
    else:
        model = build(task, device, dtype, checkpoint)
    if task["checkpointing"]:
        deepspeed.checkpointing.configure(None, deepspeed_config=config)
    return deepspeed.initialize(model=model, config=config, model_parameters=list(model.parameters()))[0]


def stepper(task: Mapping[str, Any], engine: Any) -> Callable[[Sequence[tuple[Any, Any]]], Any]:
    def step(batches: Sequence[tuple[Any, Any]]) -> Any:
        for number in range(task["accumulation"]):
            loss = engine(*batches[number % len(batches)])
            engine.backward(loss)
            engine.step()
        return loss.detach()

    return step


def fsdp2(task: Mapping[str, Any], device: Any) -> Any:
    """PyTorch's fully_shard on each block and on the rest; bf16 weights and gradients on the wire, fp32 shards, fused AdamW."""
    import torch
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    model = build(task, device, torch.float32, lambda function, *args: function(*args))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
    for block in model.blocks:
        fully_shard(block, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=device.type == "cuda")

    def step(batches: Sequence[tuple[Any, Any]]) -> Any:
        for number in range(task["accumulation"]):
            model.set_requires_gradient_sync(number == task["accumulation"] - 1)
            loss = model(*batches[number % len(batches)])
            (loss / task["accumulation"]).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step


if __name__ == "__main__":
    rank(*sys.argv[1:3])
