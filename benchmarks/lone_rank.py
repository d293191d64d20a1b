"""A process group of one process that stands for a larger world: every other rank holds and sends what this one does.

Collectives are done at once, on the caller's stream, so that numbers stay finite: what is gathered is this rank's part over and over,
what is reduced is this rank's own. Nothing leaves the GPU.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist

BACKEND = "lone"


class Done(dist._Work):
    def wait(self, timeout: Any = None) -> bool:
        return True

    def is_completed(self) -> bool:
        return True

    def get_future(self) -> Any:
        future: Any = torch.futures.Future()
        future.set_result(None)
        return future


class LoneRank(dist.ProcessGroup):
    """Methods have both names that torch has given them: 2.11 says _allgather_base where 2.13 says all_gather_single."""

    def __init__(self, rank: int, world: int) -> None:
        super().__init__(rank, world)
        self._rank, self._world = rank, world

    def size(self) -> int:
        return self._world

    def rank(self) -> int:
        return self._rank

    def getBackendName(self) -> str:
        return BACKEND

    @property
    def pg_name(self) -> str:
        return dist.distributed_c10d._world.pg_names[self]

    @property
    def group_name(self) -> str:
        return self.pg_name

    def _nothing(self, *given: Any, opts: Any = None) -> Done:
        """The mean, largest or broadcast value of equal ranks is there already."""
        return Done()

    allreduce = allreduce_coalesced = broadcast = barrier = _nothing

    def _gather(self, out: torch.Tensor, part: torch.Tensor, *options: Any, opts: Any = None) -> Done:
        out.view(self._world, -1).copy_(part.reshape(1, -1).expand(self._world, -1))
        return Done()

    def _scatter(self, out: torch.Tensor, whole: torch.Tensor, *options: Any, opts: Any = None) -> Done:
        out.view(-1).copy_(whole.reshape(self._world, -1)[self._rank])
        return Done()

    def _gather_all(self, outs: Iterable[torch.Tensor], parts: Iterable[torch.Tensor], *options: Any, opts: Any = None) -> Done:
        for out, part in zip(outs, parts, strict=True):
            self._gather(out, part)
        return Done()

    def _scatter_all(self, outs: Iterable[torch.Tensor], wholes: Iterable[torch.Tensor], *options: Any, opts: Any = None) -> Done:
        for out, whole in zip(outs, wholes, strict=True):
            self._scatter(out, whole)
        return Done()

    def allgather(self, outs: Iterable[Iterable[torch.Tensor]], parts: Iterable[torch.Tensor], *options: Any, opts: Any = None) -> Done:
        for out, part in zip(outs, parts, strict=True):
            for each in out:
                each.copy_(part)
        return Done()

    def reduce_scatter(self, outs: Iterable[torch.Tensor], lists: Iterable[list[torch.Tensor]], *options: Any, opts: Any = None) -> Done:
        for out, parts in zip(outs, lists, strict=True):
            out.copy_(parts[self._rank])
        return Done()

    def _all_to_all(self, out: torch.Tensor, given: torch.Tensor, *options: Any, opts: Any = None) -> Done:
        out.copy_(given)
        return Done()

    _allgather_base = all_gather_single = _gather
    allgather_into_tensor_coalesced = all_gather_single_coalesced = _gather_all
    _reduce_scatter_base = reduce_scatter_single = _scatter
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced = _scatter_all
    alltoall_base = all_to_all_single = _all_to_all


dist.Backend.register_backend(BACKEND, lambda store, rank, size, timeout: LoneRank(rank, size), devices=["cpu", "cuda"])
