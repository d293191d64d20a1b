"""One rank of a preflight, under torchrun: the node's doctor, a matrix product, an all-reduce. Writes what it finds as it goes along."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from zerocfg.doctor.diagnose import diagnose
from zerocfg.doctor.machine import LocalMachine
from zerocfg.doctor.needs import Needs
from zerocfg.emit import COMPILED, RUN_DIR, read_compiled
from zerocfg.launch.paths import JobPaths
from zerocfg.plan import Plan
from zerocfg.runtime.stored_plan import plan_from

SECONDS = 2.0
"""Of the product, and of the all-reduce."""
TIMEOUT = timedelta(seconds=60)
SIZE = 64 * 2**20
"""Bytes of the all-reduce; a sixteenth on the CPU."""


@dataclass(kw_only=True)
class Record:
    """What one rank has found so far."""

    rank: int
    local_rank: int
    host: str
    stage: str = "start"
    """start, doctor, gemm, rendezvous, all_reduce, done: what it was about."""
    problem: str = ""
    """What ended it there, as far as Python has seen it."""
    findings: list[dict[str, str]] = field(default_factory=list)
    """The node's, of its first rank."""
    device: str = ""
    tflops: float = 0.0
    checksum: float = 0.0
    """Of the product: the same inputs give the same on equal devices."""
    busbw_gbps: float = 0.0
    right: bool = True
    """The all-reduce gave the right sum."""
    clock: float = 0.0
    """Seconds since the epoch, all ranks at the same moment."""


def main() -> int:
    root = Path(os.environ[RUN_DIR])
    paths, stored = JobPaths(root), read_compiled(root / COMPILED)
    plan = plan_from(stored.plan)
    record = Record(rank=int(os.environ["RANK"]), local_rank=int(os.environ["LOCAL_RANK"]), host=socket.gethostname())

    def at(stage: str) -> None:
        record.stage = stage
        write(paths, record)

    try:
        check(plan, stored.environment, paths, record, at)
    except Exception as problem:
        record.problem = f"{type(problem).__name__}: {' '.join(str(problem).split())}"[:300]
        write(paths, record)
        raise
    return 0


def check(plan: Plan, environment: Mapping[str, str], paths: JobPaths, record: Record, at: Callable[[str], None]) -> None:
    """Fill the record. at: called as each stage begins."""
    at("doctor")
    if record.local_rank == 0:
        needs = Needs(plan=plan, environment=environment, output=str(paths.root), start=True)
        record.findings = [finding.as_dict() for finding in diagnose(LocalMachine(), needs)]
    at("gemm")
    import torch

    cuda = plan.hardware.is_cuda
    if cuda:
        torch.cuda.set_device(record.local_rank)
    device = torch.device("cuda", record.local_rank) if cuda else torch.device("cpu")
    record.device = torch.cuda.get_device_name() if cuda else "cpu"
    record.tflops, record.checksum = multiply(torch, device, plan.precision.dtype if cuda else "fp32")
    at("rendezvous")
    import torch.distributed as dist

    dist.init_process_group("gloo", timeout=TIMEOUT)
    record.clock = time.time()
    dist.barrier()
    at("all_reduce")
    record.busbw_gbps, record.right = reduce(torch, dist, device, plan.topology.backend)
    at("done")
    dist.barrier()
    dist.destroy_process_group()


def write(paths: JobPaths, record: Record) -> None:
    file = paths.preflight / f"rank_{record.rank}.json"
    draft = file.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(asdict(record)), encoding="utf-8")
    draft.replace(file)


def multiply(torch: Any, device: Any, dtype: str) -> tuple[float, float]:
    """(TFLOP/s of products over SECONDS, checksum). The same numbers on each rank."""
    cuda = device.type == "cuda"
    n = 8192 if cuda else 256
    kind = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(dtype, torch.float32)
    generator = torch.Generator().manual_seed(1234)
    a, b = (torch.randn(n, n, generator=generator).to(device=device, dtype=kind) / n**0.5 for _ in range(2))
    product = a @ b
    checksum = float(product.double().abs().sum())
    wait: Callable[[], object] = torch.cuda.synchronize if cuda else lambda: None
    wait()
    started, calls = time.perf_counter(), 0
    while time.perf_counter() - started < (SECONDS if cuda else SECONDS / 8):
        for _ in range(8):
            torch.mm(a, b, out=product)
        wait()
        calls += 8
    return calls * 2 * n**3 / (time.perf_counter() - started) / 1e12, checksum


def reduce(torch: Any, dist: Any, device: Any, backend: str) -> tuple[float, bool]:
    """(bus bandwidth in GB/s, whether the sum is right). Ends after SECONDS on all ranks."""
    world, cuda = dist.get_world_size(), backend == "nccl"
    group = dist.new_group(backend=backend, timeout=TIMEOUT)
    values = torch.ones(SIZE // 4 if cuda else SIZE // 64, device=device)
    dist.all_reduce(values, group=group)
    right = bool((values == world).all())
    values.zero_()
    seconds, calls, more = 0.0, 0, torch.ones(1)
    while bool(more):
        dist.barrier()
        started = time.perf_counter()
        for _ in range(8):
            dist.all_reduce(values, group=group)
        if cuda:
            torch.cuda.synchronize()
        seconds, calls = seconds + time.perf_counter() - started, calls + 8
        more.fill_(float(seconds < (SECONDS if cuda else SECONDS / 8)))
        # the ranks stop together
        dist.all_reduce(more, op=dist.ReduceOp.MIN)
    size = values.numel() * 4
    return (size * calls / seconds / 1e9 * 2 * (world - 1) / world if world > 1 else 0.0), right


if __name__ == "__main__":
    sys.exit(main())
