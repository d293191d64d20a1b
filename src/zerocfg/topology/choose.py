"""Which GPUs a job should take."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from itertools import combinations

from zerocfg.topology.matrix import Matrix, hops, nvlinks

_MOST_SETS = 20_000
"""As many sets are compared one by one, all of any machine of 16 GPUs; beyond it the set grows from each start by the best next GPU."""


def choose(matrix: Matrix, free: Iterable[int], n: int) -> tuple[int, ...]:
    """The best n of the free GPUs, ascending; always the same ones for the same arguments.

    In this order: fewest NVLink islands, fewest NUMA nodes, fewest hops between all pairs, most NVLinks, least left of a group that is
    broken up (two of a pair rather than two of a free four), lowest numbers. Raises ValueError when fewer than n are free, or one is
    not in the matrix.
    """
    candidates = sorted(set(free))
    if candidates and not 0 <= candidates[0] <= candidates[-1] < len(matrix.gpus):
        raise ValueError(f"GPUs {candidates} are not all among the {len(matrix.gpus)} of this machine")
    if not 0 <= n <= len(candidates):
        raise ValueError(f"{n} GPUs wanted, {len(candidates)} free")
    score = _Score(matrix, candidates)
    if math.comb(len(candidates), n) <= _MOST_SETS:
        return min(combinations(candidates, n), key=score)
    return min((_grown(start, candidates, n, score) for start in candidates), key=score)


def _grown(start: int, candidates: list[int], n: int, score: _Score) -> tuple[int, ...]:
    chosen: tuple[int, ...] = (start,)
    while len(chosen) < n:
        chosen = min((tuple(sorted((*chosen, c))) for c in candidates if c not in chosen), key=score)
    return chosen


class _Score:
    """Of a set of GPUs, ascending; the lower the better."""

    def __init__(self, matrix: Matrix, free: list[int]) -> None:
        self._hops = [[hops(link) for link in row] for row in matrix.links]
        self._nvlinks = [[nvlinks(link) for link in row] for row in matrix.links]
        self._island = {gpu: i for i, group in enumerate(matrix.islands) for gpu in group}
        self._node = {gpu: i for i, group in enumerate(matrix.numa_nodes) for gpu in group}
        self._free = Counter(map(self._group, free))

    def _group(self, gpu: int) -> tuple[int, int]:
        return self._island[gpu], self._node[gpu]

    def __call__(self, chosen: tuple[int, ...]) -> tuple[int, int, int, int, int, tuple[int, ...]]:
        pairs = list(combinations(chosen, 2))
        groups = Counter(map(self._group, chosen))
        return (
            len({self._island[gpu] for gpu in chosen}),
            len({self._node[gpu] for gpu in chosen}),
            sum(self._hops[a][b] for a, b in pairs),
            -sum(self._nvlinks[a][b] for a, b in pairs),
            sum(self._free[group] - taken for group, taken in groups.items()),
            chosen,
        )
