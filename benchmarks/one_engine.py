"""What one rank does with a task of many_engines.py: train its model for a few steps and measure."""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).parents[1]
WARM_UP, TIMED = 3, 5
"""Optimizer steps of a speed."""
WEIGHED = 3
"""Optimizer steps of a memory: moments are made in the first, stage 3 prefetches from the second on."""


def measure(task: Mapping[str, Any], local_rank: int) -> dict[str, Any]:
    """torch.distributed is initialized."""
    import deepspeed
    import torch

    cuda = torch.cuda.is_available()
    if not cuda:
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # minutes to compile
    deepspeed.init_distributed(dist_backend="nccl" if cuda else "gloo", verbose=False)  # zero.Init comes before the engine
    return MEASURES[task["measure"]](task, torch.device("cuda", local_rank) if cuda else torch.device("cpu"))


def timed(task: Mapping[str, Any], device: Any) -> dict[str, Any]:
    """Train for a few steps. All of the engine is dropped with this frame.

    host_seconds_per_step: until the host has queued all of a step; near seconds_per_step where the GPU waits for the host.
    """
    import gc

    import torch

    step = fsdp2(task, device) if task.get("fsdp2") else stepper(task, deepspeed_engine(task, device))
    next_batch = batches_of(task, device)
    batches = [next_batch() for _ in range(2)]

    def wait() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize()
        torch.distributed.barrier()

    for _ in range(WARM_UP + task.get("compiling_steps", 0)):
        loss = step(batches)
    if task.get("freeze"):
        gc.collect()
        gc.freeze()
    wait()
    start = time.perf_counter()
    for _ in range(TIMED):
        loss = step(batches)
    host = (time.perf_counter() - start) / TIMED
    wait()
    took = (time.perf_counter() - start) / TIMED
    tokens = task["micro"] * task["accumulation"] * task["model"]["sequence_length"]
    memory = torch.cuda.max_memory_allocated() if device.type == "cuda" else 0
    return {
        "tokens_per_s_per_gpu": tokens / took,
        "seconds_per_step": took,
        "host_seconds_per_step": host,
        "allocated": memory,
        "loss": float(loss),
    }


def weighed(task: Mapping[str, Any], device: Any) -> dict[str, Any]:
    """Bytes of the rank that took most: allocated, reserved, their phases; outside: of the card besides torch's allocator."""
    import torch

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


def dtype_of(name: str) -> Any:
    import torch

    return {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[name]


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

    from zerocfg.runtime.engine import checkpoint as recomputed
    from zerocfg.runtime.leaf import mark_leaf_modules

    dtype = dtype_of(task["dtype"])
    config = {**task["deepspeed"], "steps_per_print": 10**9}

    def checkpoint(function: Any, *args: Any) -> Any:
        return recomputed(function, args) if task["checkpointing"] else function(*args)

    if task["stage"] == 3:
        with deepspeed.zero.Init(config_dict_or_path=config, dtype=dtype):
            model = example().GPT(SimpleNamespace(**task["model"]), checkpoint)
        if task["leaf"]:
            mark_leaf_modules(model)
    else:
        model = build(task, device, dtype, checkpoint)
    if task["checkpointing"]:
        deepspeed.checkpointing.configure(None, deepspeed_config=config)
    engine = deepspeed.initialize(model=model, config=config, model_parameters=list(model.parameters()))[0]
    if config.get("compile", {}).get("deepcompile"):
        engine.compile()
    return engine


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
