"""A bare torch.distributed loop beside `zerocfg bench comm`: both must see the same machine.

    python benchmarks/comm_reference.py                                      two GPUs, nccl, 256 MiB and 1 GiB
    python benchmarks/comm_reference.py --world 2 --backend gloo --sizes 1M hardware=cpu

Bus bandwidth in GB/s as nccl-tests define it. What is left over goes to zerocfg bench comm as overrides.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CALLS = {"nccl": 20, "gloo": 5}


def reference(backend: str, sizes: list[int], out: str) -> None:
    """One rank. Nothing of zerocfg is used."""
    import torch
    import torch.distributed as dist

    cuda = backend == "nccl"
    if cuda:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group(backend)
    world, device = dist.get_world_size(), "cuda" if cuda else "cpu"
    # torch 2.13 warns at each call of the names that older releases have
    gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
    found = []
    for size in sizes:
        big = torch.zeros(size // 4, device=device)
        part = torch.zeros(size // 4 // world, device=device)
        for op, call, factor in (
            ("all_reduce", lambda big=big: dist.all_reduce(big), 2 * (world - 1) / world),
            ("all_gather", lambda big=big, part=part: gather(big, part), (world - 1) / world),
            ("reduce_scatter", lambda big=big, part=part: scatter(part, big), (world - 1) / world),
        ):
            for _ in range(5):
                call()
            dist.barrier()
            if cuda:
                torch.cuda.synchronize()
            started = time.perf_counter()
            for _ in range(CALLS[backend]):
                call()
            if cuda:
                torch.cuda.synchronize()
            seconds = (time.perf_counter() - started) / CALLS[backend]
            found.append({"op": op, "bytes": size, "busbw_gbps": size / seconds / 1e9 * factor})
    if dist.get_rank() == 0:
        Path(out).write_text(json.dumps(found))
    dist.destroy_process_group()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="nccl", choices=CALLS)
    parser.add_argument("--sizes", default="256M,1G")
    parser.add_argument("--world", type=int, default=2)
    parser.add_argument("--rank-writes", help=argparse.SUPPRESS)
    asked, overrides = parser.parse_known_args()
    from zerocfg.bench.collectives import parse_sizes, size_text

    sizes = list(parse_sizes(asked.sizes))
    if asked.rank_writes:
        reference(asked.backend, sizes, asked.rank_writes)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        out, curve = f"{folder}/reference.json", f"{folder}/comm.json"
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={asked.world}"]
        same = ["--backend", asked.backend, "--sizes", asked.sizes]
        subprocess.run([*torchrun, __file__, *same, "--rank-writes", out], check=True)
        ops = ["--ops", "all_reduce,all_gather,reduce_scatter"]
        words = [f"hardware.gpus_per_node={asked.world}", *overrides, *same, *ops, "--out", curve, "--json"]
        measured = subprocess.run([sys.executable, "-m", "zerocfg", "bench", "comm", *words], check=True, stdout=subprocess.PIPE, text=True)
        bare = {(row["op"], row["bytes"]): row["busbw_gbps"] for row in json.loads(Path(out).read_text())}
    ours = {(row["op"], row["bytes"]): row["busbw_gbps"] for row in json.loads(measured.stdout)["rows"]}
    print(f"{'':<16} {'':>8} {'bare loop':>10} {'zerocfg':>10} {'differs':>8}")
    for (op, size), reached in bare.items():
        mine = ours[op, size]
        print(f"{op:<16} {size_text(size):>8} {reached:>10.2f} {mine:>10.2f} {mine / reached - 1:>+8.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
