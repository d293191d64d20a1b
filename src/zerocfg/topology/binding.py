"""Which CPUs the rank of a GPU should run on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zerocfg.topology.matrix import Matrix, cpu_text


@dataclass(frozen=True, kw_only=True, slots=True)
class RankBinding:
    """One rank's place."""

    gpu: int
    numa_node: int
    """-1: not told."""
    cpus: tuple[int, ...]
    """Logical CPUs of its node; empty: not told."""
    cpus_per_rank: int
    """Its share of them when the node's other ranks take theirs; 0: not told."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Binding:
    numa_binding: str
    """torchrun's --numa-binding: node, or none."""
    why: str
    ranks: tuple[RankBinding, ...]


def bind(matrix: Matrix, chosen: Sequence[int], numa_nodes: int = 0) -> Binding:
    """Each rank on its GPU's NUMA node, where the machine has more than one. numa_nodes: of the machine; 0: those with GPUs."""
    nodes = {group[0]: group for group in matrix.numa_nodes}
    count = max(len(nodes), numa_nodes)
    ranks = []
    for gpu in chosen:
        device = matrix.gpus[gpu]
        beside = next((group for group in nodes.values() if gpu in group), (gpu,))
        sharing = sum(1 for other in chosen if other in beside)
        share = len(device.cpus) // sharing
        ranks.append(RankBinding(gpu=gpu, numa_node=device.numa_node, cpus=device.cpus, cpus_per_rank=share))
    if count < 2:
        return Binding(numa_binding="none", why="one NUMA node", ranks=tuple(ranks))
    if any(not rank.cpus for rank in ranks):
        return Binding(numa_binding="none", why="the machine does not say which CPUs are beside which GPU", ranks=tuple(ranks))
    return Binding(numa_binding="node", why=f"{count} NUMA nodes", ranks=tuple(ranks))


def numactl(rank: RankBinding) -> str:
    """The same by hand; empty where there is nothing to bind to."""
    if rank.numa_node >= 0:
        return f"numactl --cpunodebind={rank.numa_node} --membind={rank.numa_node}"
    return f"numactl --physcpubind={cpu_text(rank.cpus)}" if rank.cpus else ""
