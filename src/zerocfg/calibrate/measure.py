"""The measurements, on one rank of all that take part. Sizes on cpu are small: the same code, minutes saved."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from zerocfg.planner.rates import bus_factor

MIB = 2**20
BLOCKS, MODULES = 8, 8
"""Of the model that times stage 3's hooks."""


def measure_here(out: str) -> None:
    """Measure and, on rank 0, write a JSON under the names that planner.rates.calibrated reads."""
    import torch

    cuda = torch.cuda.is_available()
    local = int(os.environ.get("LOCAL_RANK", "0"))
    if cuda:
        torch.cuda.set_device(local)
    device = torch.device("cuda", local) if cuda else torch.device("cpu")
    world = int(os.environ.get("WORLD_SIZE", "1"))
    torch.distributed.init_process_group("nccl" if cuda else "gloo")
    found: dict[str, Any] = {"gpu": torch.cuda.get_device_name() if cuda else "cpu", "ranks": world, "torch": torch.__version__}
    try:
        found["matmul_tflops"] = matmul(device)
        found["memory_gbps"] = copy_gbps(device)
        found["launch_us"] = launch_us(device)
        if cuda:
            found["attention_tflops"] = attention_tflops(device)
            found["h2d_gbps"], found["d2h_gbps"] = pcie_gbps(device)
        if world > 1:
            found |= {name: collective(name, device, world) for name in ("all_reduce", "all_gather", "reduce_scatter")}
        rate = cpu_adam(1 << 26) if cuda else 0.0  # nothing is offloaded where there is no GPU
        if rate:
            found["cpu_adam_cores"] = torch.get_num_threads()
            found["cpu_adam_per_core"] = rate / torch.get_num_threads()
        if cuda:
            found["stage3_module_us"] = stage3_module_us(device)
        if torch.distributed.get_rank() == 0:
            Path(out).write_text(json.dumps(found, indent=2), encoding="utf-8")
    finally:
        torch.distributed.destroy_process_group()


def seconds(function: Callable[[], Any], device: Any, *, repeats: int = 10) -> float:
    """Of one call, after three to warm up: the median of three runs."""
    import torch

    def wait() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize()

    for _ in range(3):
        function()
    runs = []
    for _ in range(3):
        wait()
        start = time.perf_counter()
        for _ in range(repeats):
            function()
        wait()
        runs.append((time.perf_counter() - start) / repeats)
    return sorted(runs)[1]


def matmul(device: Any) -> dict[str, float]:
    """dtype -> TFLOP/s of a product as large as a transformer's, clocks under load."""
    import torch

    cuda = device.type == "cuda"
    n = 8192 if cuda else 512
    capability = torch.cuda.get_device_capability(device) if cuda else (0, 0)
    dtypes = {"fp32": torch.float32, "fp16": torch.float16 if cuda else None, "bf16": torch.bfloat16}
    found: dict[str, float] = {}
    for name, dtype in dtypes.items():
        if dtype is None or (cuda and name == "bf16" and capability < (8, 0)):
            continue
        a, b = (torch.randn(n, n, device=device, dtype=dtype) for _ in range(2))
        torch.backends.cuda.matmul.allow_tf32 = False
        found[name] = 2 * n**3 / seconds(lambda a=a, b=b: a @ b, device, repeats=20 if cuda else 3) / 1e12  # type: ignore[misc]
        if name == "fp32" and capability >= (8, 0):
            torch.backends.cuda.matmul.allow_tf32 = True
            found["tf32"] = 2 * n**3 / seconds(lambda a=a, b=b: a @ b, device, repeats=20) / 1e12  # type: ignore[misc]
            torch.backends.cuda.matmul.allow_tf32 = False
    return found


def copy_gbps(device: Any) -> float:
    """Read and write counted."""
    import torch

    size = 512 * MIB if device.type == "cuda" else 32 * MIB
    a = torch.empty(size, dtype=torch.uint8, device=device)
    b = torch.empty_like(a)
    return 2 * size / seconds(lambda: b.copy_(a), device) / 1e9


def launch_us(device: Any) -> float:
    """Host time of one small operator: enough of them that the host is what is waited for."""
    import torch

    a = torch.zeros(16, device=device)
    return seconds(lambda: a.add_(1), device, repeats=1000) * 1e6


def attention_tflops(device: Any) -> float:
    """Causal, forward and backward, counted in full."""
    import torch
    from torch.nn import functional

    dtype = torch.bfloat16 if torch.cuda.get_device_capability(device) >= (8, 0) else torch.float16
    batch, heads, length, dim = 4, 16, 2048, 128
    q, k, v = (torch.randn(batch, heads, length, dim, device=device, dtype=dtype, requires_grad=True) for _ in range(3))

    def both() -> None:
        functional.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()

    return 12.0 * batch * heads * length**2 * dim / seconds(both, device) / 1e12


def pcie_gbps(device: Any) -> tuple[float, float]:
    """Host to device and back, page-locked, all ranks at a time."""
    import torch

    size = 256 * MIB
    host = torch.empty(size, dtype=torch.uint8, pin_memory=True)
    there = torch.empty(size, dtype=torch.uint8, device=device)
    torch.distributed.barrier()
    up = size / seconds(lambda: there.copy_(host, non_blocking=True), device) / 1e9
    torch.distributed.barrier()
    return up, size / seconds(lambda: host.copy_(there, non_blocking=True), device) / 1e9


def collective(name: str, device: Any, world: int) -> list[list[float]]:
    """[bytes on the bus as nccl-tests count them, microseconds], by size."""
    import torch
    import torch.distributed as dist

    points = []
    sizes = [MIB // 16, MIB, 16 * MIB, 128 * MIB, 512 * MIB] if device.type == "cuda" else [MIB // 16, MIB, 4 * MIB]
    for size in sizes:
        whole = torch.zeros(size // 4 // world * world, device=device)
        part = torch.zeros(whole.numel() // world, device=device)
        calls: dict[str, Callable[[], Any]] = {
            "all_reduce": lambda whole=whole: dist.all_reduce(whole),  # type: ignore[misc]
            "all_gather": lambda whole=whole, part=part: dist.all_gather_into_tensor(whole, part),  # type: ignore[misc]
            "reduce_scatter": lambda whole=whole, part=part: dist.reduce_scatter_tensor(part, whole),  # type: ignore[misc]
        }
        dist.barrier()
        took = seconds(calls[name], device, repeats=5)
        points.append([bus_factor(name, world) * whole.numel() * 4, took * 1e6])
    return points


def cpu_adam(numel: int) -> float:
    """Parameters a second of this rank, all ranks at a time, with what an offloaded step does beside CPU Adam: norm, unscale, the
    16-bit copy. 0 where DeepSpeed cannot build the kernel."""
    import torch

    try:
        from deepspeed.ops.adam import DeepSpeedCPUAdam

        weight = torch.nn.Parameter(torch.zeros(numel))
        optimizer = DeepSpeedCPUAdam([weight])
    except Exception:  # no compiler, another instruction set: the planner keeps its own number
        return 0.0
    gradient, half = torch.zeros(numel), torch.zeros(numel, dtype=torch.bfloat16)
    weight.grad = gradient

    def step() -> None:
        gradient.norm(2)
        gradient.mul_(1.0)
        optimizer.step()
        half.copy_(weight.data)

    torch.distributed.barrier()
    return numel / seconds(step, torch.device("cpu"), repeats=2)


def stage3_module_us(device: Any) -> float:
    """Host time of stage 3's hooks for one module, both passes: a model of small modules with and without its blocks as leaf modules."""
    import torch
    from torch import nn

    def steps(leaf: bool) -> float:
        import deepspeed
        from deepspeed.utils import set_z3_leaf_module

        config = {
            "train_micro_batch_size_per_gpu": 1,
            "bf16": {"enabled": torch.cuda.get_device_capability(device) >= (8, 0)},
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
            "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 0, "reduce_bucket_size": 10**6},
            "steps_per_print": 10**9,
        }
        with deepspeed.zero.Init(config_dict_or_path=config):
            model = nn.Sequential(*(nn.Sequential(*(nn.Linear(64, 64, bias=False) for _ in range(MODULES))) for _ in range(BLOCKS)))
        for block in model if leaf else ():
            set_z3_leaf_module(block, True)
        engine, *_ = deepspeed.initialize(model=model, config=config, model_parameters=list(model.parameters()))
        x = torch.zeros(1, 64, device=device, dtype=next(model.parameters()).dtype)

        def once() -> None:
            engine.backward(engine(x).float().sum())
            engine.step()

        return seconds(once, device, repeats=5)

    whole = steps(leaf=False)
    return max(0.0, (whole - steps(leaf=True)) * 1e6 / (BLOCKS * MODULES - BLOCKS))
