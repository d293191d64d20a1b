"""Which GPUs a job gets."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zerocfg.topology.binding import bind, numactl
from zerocfg.topology.choose import choose
from zerocfg.topology.matrix import Device, Matrix
from zerocfg.topology.parse import parse

MATRICES = Path(__file__).parent / "matrices"


def matrix(name: str) -> Matrix:
    return parse((MATRICES / f"{name}.txt").read_text())


@pytest.mark.parametrize(
    ("name", "free", "n", "chosen"),
    [
        # an island before a NUMA node before hops
        ("nvl_pairs", (0, 2, 3), 2, (2, 3)),
        ("nvl_pairs", (1, 2, 4, 6, 7), 2, (6, 7)),
        ("nvl_pairs", (0, 2, 5), 2, (0, 2)),
        ("nvl_pairs", (0, 1, 2, 4, 5), 4, (0, 1, 4, 5)),
        ("nvl_pairs", (0, 1, 2, 4, 5), 3, (0, 1, 2)),
        ("pcie_two_sockets", (0, 3, 4, 5), 2, (4, 5)),
        ("pcie_two_sockets", (0, 3, 4, 6, 7), 3, (4, 6, 7)),
        ("pcie_two_sockets", (1, 5, 7), 2, (5, 7)),
        ("pcie_one_socket", (1, 2, 3), 2, (2, 3)),
        # two NVLinks rather than one, none of them over a third GPU
        ("dgx1_v100", (0, 1, 3), 2, (0, 3)),
        ("dgx1_v100", (0, 1, 2), 2, (1, 2)),
        ("dgx1_v100", (1, 2, 3, 4), 3, (1, 2, 3)),
        # a switch reaches all alike: the NUMA node decides
        ("hgx_h100", (2, 3, 4, 5, 6), 2, (2, 3)),
        ("hgx_h100", (3, 4, 5, 6), 2, (4, 5)),
        ("hgx_h100", (0, 1, 5, 6, 7), 3, (5, 6, 7)),
        ("dgx_a100", (1, 2, 3, 4), 2, (2, 3)),
        # what is broken already is broken further
        ("hgx_h100", (0, 1, 2, 3, 7), 1, (7,)),
        ("nvl_pairs", (0, 1, 2, 4, 5, 6, 7), 1, (2,)),
        ("hgx_h100", (0, 1, 2, 3, 6, 7), 2, (6, 7)),
        ("h200_x2", (0, 1), 2, (0, 1)),
        ("h200_x2", (1,), 1, (1,)),
        ("wsl", (0,), 1, (0,)),
        ("no_gpu", (), 0, ()),
    ],
)
def test_choice(name: str, free: tuple[int, ...], n: int, chosen: tuple[int, ...]) -> None:
    assert choose(matrix(name), free, n) == chosen
    assert choose(matrix(name), reversed(free), n) == chosen


@pytest.mark.parametrize(("free", "n"), [((0, 1), 3), ((0, 9), 1), ((-1, 0), 1), ((0,), -1)])
def test_what_cannot_be_chosen(free: tuple[int, ...], n: int) -> None:
    with pytest.raises(ValueError, match="GPUs"):
        choose(matrix("hgx_h100"), free, n)


_LINK = st.sampled_from(["NV1", "NV2", "PIX", "PXB", "PHB", "NODE", "SYS", "?"])


@st.composite
def matrices(draw: st.DrawFn) -> Matrix:
    n = draw(st.integers(1, 7))
    cells = [["X"] * n for _ in range(n)]
    for a, b in combinations(range(n), 2):
        cells[a][b] = cells[b][a] = draw(_LINK)
    gpus = tuple(Device(name=f"GPU{i}", numa_node=draw(st.integers(-1, 2))) for i in range(n))
    return Matrix(gpus=gpus, links=tuple(map(tuple, cells)))


@given(matrices(), st.data())
def test_properties(found: Matrix, data: st.DataObject) -> None:
    """n of the free ones; no other set of an island where one does; and numbers do not matter."""
    free = data.draw(st.sets(st.integers(0, len(found.gpus) - 1), min_size=1))
    n = data.draw(st.integers(1, len(free)))
    chosen = choose(found, free, n)
    assert len(set(chosen)) == n
    assert set(chosen) <= free
    assert list(chosen) == sorted(chosen)
    if any(len(free & set(island)) >= n for island in found.islands):
        assert any(set(chosen) <= set(island) for island in found.islands)
    spans = sum(1 for island in found.islands if set(island) & set(chosen))
    assert spans == min(sum(1 for i in found.islands if set(i) & set(s)) for s in combinations(free, n))


@settings(max_examples=5, deadline=None)
@given(st.integers(9, 14))
def test_many_gpus_are_chosen_step_by_step(n: int) -> None:
    """72 GPUs on a switch, 18 a node of 4: an exhaustive search would never end."""
    links = tuple(tuple("X" if a == b else "NV18" for b in range(72)) for a in range(72))
    rack = Matrix(gpus=tuple(Device(name=f"GPU{i}", numa_node=i // 18) for i in range(72)), links=links)
    assert choose(rack, range(4, 72), n) == tuple(range(4, 4 + n))


def test_binding() -> None:
    found = bind(matrix("dgx_a100"), (0, 1, 2))
    assert found.numa_binding == "node"
    assert [(r.gpu, r.numa_node, r.cpus_per_rank) for r in found.ranks] == [(0, 3, 16), (1, 3, 16), (2, 1, 32)]
    assert numactl(found.ranks[0]) == "numactl --cpunodebind=3 --membind=3"
    assert bind(matrix("h200_x2"), (0, 1)).numa_binding == "none"
    # the machine has a second node without GPUs: ranks still belong beside theirs
    assert bind(matrix("h200_x2"), (0, 1), numa_nodes=2).numa_binding == "node"
    old = bind(matrix("dgx1_v100"), (0, 4))
    assert (old.numa_binding, numactl(old.ranks[1])) == ("node", "numactl --physcpubind=20-39,60-79")
    assert bind(matrix("wsl"), (0,)).numa_binding == "none"
    blind = Matrix(gpus=(Device(name="GPU0", numa_node=0), Device(name="GPU1", numa_node=1)), links=(("X", "SYS"), ("SYS", "X")))
    assert bind(blind, (0, 1)).numa_binding == "none"
