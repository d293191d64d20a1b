"""One rank of `zerocfg bench comm`: python -m zerocfg.bench.comm_rank --backend nccl --sizes 1K:1G:4 --out FILE, under torchrun.

On several nodes: zerocfg bench comm OVERRIDES --target slurm.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from zerocfg.bench.collectives import DEFAULT_SIZES, ELEMENT, OPS, parse_sizes, rounded, size_text

_WARM_UP, _ROUNDS = 5, 3
_LEAST, _MOST = 5, 200
_TIMEOUT = timedelta(minutes=5)


def main(words: Sequence[str]) -> int:
    """Rank 0 writes --out: a list of {backend, op, bytes, seconds, right} or {backend, op, refused}, and versions."""
    parser = argparse.ArgumentParser(prog="zerocfg.bench.comm_rank", description=__doc__)
    parser.add_argument("--backend", default="nccl")
    parser.add_argument("--sizes", default="")
    parser.add_argument("--ops", default=",".join(OPS))
    parser.add_argument("--seconds", type=float, default=0.2, help="of measuring a size, a third of it each of three times")
    parser.add_argument("--out", required=True)
    asked = parser.parse_args(words)
    import torch
    import torch.distributed as dist

    # gloo carries what the ranks tell each other, so that nothing of it is in the times
    dist.init_process_group("gloo", timeout=_TIMEOUT)
    rank, found = dist.get_rank(), []
    for backend in asked.backend.split(","):
        bench = Bench(torch, dist, backend, asked.seconds)
        for op in asked.ops.split(","):
            for size in parse_sizes(asked.sizes or DEFAULT_SIZES[backend]):
                row = bench.measure(op, rounded(size, dist.get_world_size()))
                found.append(row)
                if rank == 0:
                    done = row.get("refused") or f"{row['seconds'] * 1e6:.1f} us"
                    print(f"{backend} {op} {size_text(row.get('bytes', size))}: {done}", flush=True)
                if "refused" in row:
                    break
        bench.close()
    if rank == 0:
        text = json.dumps({"versions": _versions(torch), "rows": found})
        draft = Path(f"{asked.out}.{os.getpid()}")
        draft.write_text(text, encoding="utf-8")
        draft.replace(asked.out)
    dist.barrier()
    dist.destroy_process_group()
    return 0


def _versions(torch: Any) -> dict[str, str]:
    nccl = ".".join(map(str, torch.cuda.nccl.version())) if torch.cuda.is_available() else ""
    return {"torch": torch.__version__, "nccl": nccl}


class Bench:
    """Collectives of one backend over all ranks."""

    def __init__(self, torch: Any, dist: Any, backend: str, seconds: float) -> None:
        self._torch, self._dist = torch, dist
        self._backend, self._seconds = backend, seconds
        self._world, self._rank = dist.get_world_size(), dist.get_rank()
        self._cuda = backend == "nccl"
        if self._cuda:
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        self._device = torch.device("cuda", torch.cuda.current_device()) if self._cuda else torch.device("cpu")
        self._group = dist.new_group(backend=backend, timeout=_TIMEOUT)

    def close(self) -> None:
        self._dist.destroy_process_group(self._group)

    def measure(self, op: str, size: int) -> dict[str, Any]:
        try:
            call, fill, right = self._prepared(op, size // ELEMENT)
            fill()
            call()
            self._wait()
        except (RuntimeError, NotImplementedError) as problem:
            # the same for all ranks: the backend does not have it
            return {"backend": self._backend, "op": op, "refused": str(problem).splitlines()[0][:200]}
        was_right = self._agreed(0.0 if right() else 1.0) == 0.0
        for _ in range(_WARM_UP):
            call()
        once = self._agreed(self._timed(call, 2) / 2)
        calls = max(_LEAST, min(_MOST, int(self._seconds / _ROUNDS / max(once, 1e-7))))
        rounds = sorted(self._agreed(self._timed(call, calls) / calls) for _ in range(_ROUNDS))
        return {"backend": self._backend, "op": op, "bytes": size, "seconds": rounds[_ROUNDS // 2], "right": was_right}

    def _timed(self, call: Callable[[], object], calls: int) -> float:
        """As nccl-tests do: many at once, so that what a call costs the CPU is hidden where the GPU is the slower."""
        self._wait()
        self._dist.barrier()
        started = time.perf_counter()
        for _ in range(calls):
            call()
        self._wait()
        return time.perf_counter() - started

    def _wait(self) -> None:
        if self._cuda:
            self._torch.cuda.synchronize()

    def _agreed(self, number: float) -> float:
        """The largest of all ranks: a collective is done when its last rank is, and all make as many calls."""
        box = self._torch.tensor([number], dtype=self._torch.float64)
        self._dist.all_reduce(box, op=self._dist.ReduceOp.MAX)
        return float(box.item())

    def _prepared(self, op: str, count: int) -> tuple[Callable[[], object], Callable[[], object], Callable[[], bool]]:
        """(the call, fill the buffers, whether one call on filled buffers gave what it should). count: elements of the whole operation."""
        dist, group, world, rank = self._dist, self._group, self._world, self._rank
        part = count // world
        big, small = self._zeros(count), self._zeros(part)
        # torch 2.13 warns at each call of the names that older releases have
        gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
        scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
        if op == "all_reduce":

            def summed() -> bool:
                right = self._all(big, world)
                big.zero_()  # summed up again and again, anything else would overflow
                return right

            return (lambda: dist.all_reduce(big, group=group)), (lambda: big.fill_(1)), summed
        if op == "broadcast":
            return (lambda: dist.broadcast(big, src=0, group=group)), (lambda: big.fill_(rank + 1)), (lambda: self._all(big, 1))
        if op == "all_gather":
            return (
                lambda: gather(big, small, group=group),
                lambda: small.fill_(rank),
                lambda: all(self._all(big[i * part : (i + 1) * part], i) for i in range(world)),
            )
        if op == "reduce_scatter":
            return (lambda: scatter(small, big, group=group)), (lambda: big.fill_(1)), (lambda: self._all(small, world))
        other = self._zeros(count)
        return (
            lambda: dist.all_to_all_single(other, big, group=group),
            lambda: [big[i * part : (i + 1) * part].fill_(rank * world + i) for i in range(world)],
            lambda: all(self._all(other[i * part : (i + 1) * part], i * world + rank) for i in range(world)),
        )

    def _zeros(self, count: int) -> Any:
        return self._torch.zeros(count, dtype=self._torch.float32, device=self._device)

    def _all(self, values: Any, number: int) -> bool:
        return bool((values == number).all().item())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
