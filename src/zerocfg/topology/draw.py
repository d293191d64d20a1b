"""A matrix as plain text: a table, a tree of NUMA nodes and islands, and what a job of each size would get."""

from __future__ import annotations

from collections.abc import Sequence

from zerocfg.topology.binding import bind, numactl
from zerocfg.topology.choose import choose
from zerocfg.topology.matrix import MEANING, Matrix, cpu_text, nvlinks


def cells(matrix: Matrix) -> list[list[str]]:
    """Header and a row a GPU: links to the GPUs and the network cards, CPUs, NUMA node."""
    names = [device.name for device in (*matrix.gpus, *matrix.nics)]
    rows = [["", *names, "CPUs", "NUMA node"]]
    for i, gpu in enumerate(matrix.gpus):
        node = str(gpu.numa_node) if gpu.numa_node >= 0 else "-"
        rows.append([gpu.name, *matrix.links[i], *(matrix.nic_links[i] if matrix.nics else ()), cpu_text(gpu.cpus) or "-", node])
    return rows


def table(matrix: Matrix) -> str:
    rows = cells(matrix)
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)


def legend(matrix: Matrix) -> str:
    """Meaning of the links that occur."""
    seen = {link for row in (*matrix.links, *matrix.nic_links) for link in row}
    kinds = {"NV#" if nvlinks(link) else link for link in seen}
    return "\n".join(f"{kind:<4} {meaning}" for kind, meaning in MEANING.items() if kind in kinds)


def tree(matrix: Matrix) -> str:
    """NUMA nodes, their NVLink islands, the network cards beside each."""
    lines = []
    for group in matrix.numa_nodes:
        first = matrix.gpus[group[0]]
        name = f"NUMA node {first.numa_node}" if first.numa_node >= 0 else "NUMA node not told"
        lines.append(name + (f", CPUs {cpu_text(first.cpus)}" if first.cpus else ""))
        for island in matrix.islands:
            here = [i for i in island if i in group]
            if here:
                lines.append(f"  {' '.join(matrix.gpus[i].name for i in here)}" + _island(matrix, island, here))
    return "\n".join(lines)


def _island(matrix: Matrix, island: Sequence[int], here: Sequence[int]) -> str:
    if len(island) < 2:
        return ""
    widths = sorted({nvlinks(matrix.link(a, b)) for a in island for b in island if a < b} - {0})
    kinds = "/".join(f"NV{width}" for width in widths)
    others = [matrix.gpus[i].name for i in island if i not in here]
    return f"  [{kinds}" + (f", with {' '.join(others)}" if others else "") + "]"


def choices(matrix: Matrix, numa_nodes: int = 0) -> str:
    """The GPUs that a job of 1, 2, 4, 8 ... gets on the idle machine, and the binding of its ranks."""
    count = len(matrix.gpus)
    sizes = sorted({size for size in (1, 2, 4, 8, 16, 32, 64) if size <= count} | {count})
    lines = []
    for size in sizes:
        chosen = choose(matrix, range(count), size)
        binding = bind(matrix, chosen, numa_nodes)
        shares = sorted({rank.cpus_per_rank for rank in binding.ranks})
        lines.append(
            f"{size:>3}  {','.join(map(str, chosen)):<24} --numa-binding={binding.numa_binding}"
            + (f", {'-'.join(map(str, shares))} logical CPUs a rank" if shares != [0] else "")
        )
    return "\n".join(lines)


def bindings(matrix: Matrix, chosen: Sequence[int], numa_nodes: int = 0) -> str:
    """One line a rank: its GPU, its CPUs, and the same by hand with numactl."""
    found = bind(matrix, chosen, numa_nodes)
    lines = [f"torchrun --numa-binding={found.numa_binding}: {found.why}"]
    for local_rank, rank in enumerate(found.ranks):
        by_hand = numactl(rank) if found.numa_binding != "none" else ""
        cpus = f"CPUs {cpu_text(rank.cpus)}" if rank.cpus else "CPUs not told"
        share = f", {rank.cpus_per_rank} of them its share" if rank.cpus_per_rank else ""
        lines.append(f"  local rank {local_rank}: {matrix.gpus[rank.gpu].name}, {cpus}{share}" + (f"; {by_hand}" if by_hand else ""))
    return "\n".join(lines)
