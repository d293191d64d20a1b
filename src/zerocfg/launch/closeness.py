"""Which of the free GPUs are closest together on this machine."""

from __future__ import annotations

from collections.abc import Sequence

from zerocfg.facts import Detected
from zerocfg.launch.pool import Closest, first_ones


def closest_of(machine: Detected) -> Closest:
    """A chooser over indices of machine.gpus; the first free ones where the links are not known."""
    from zerocfg.probe.topology import read_matrix
    from zerocfg.topology.choose import choose

    matrix = read_matrix()
    numbers = [gpu.index for gpu in machine.gpus]
    if not matrix.gpus or any(not 0 <= n < len(matrix.gpus) for n in numbers) or len(set(numbers)) < len(numbers):
        return first_ones

    def closest(free: Sequence[int], count: int) -> Sequence[int]:
        place = {numbers[i]: i for i in free}
        return [place[n] for n in choose(matrix, place, count)]

    return closest
