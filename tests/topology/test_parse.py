"""Each machine's table, read whole; and damaged ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerocfg.topology.choose import choose
from zerocfg.topology.draw import bindings, choices, legend, table, tree
from zerocfg.topology.matrix import HOPS, SELF, UNKNOWN, Device, Matrix, cpu_list, cpu_text, hops, link_name, nvlinks
from zerocfg.topology.parse import parse

MATRICES = Path(__file__).parent / "matrices"
NAMES = sorted(path.stem for path in MATRICES.glob("*.txt"))


def matrix(name: str) -> Matrix:
    return parse((MATRICES / f"{name}.txt").read_text())


def whole(found: Matrix) -> str:
    if not found.gpus:
        return f"no GPU: {found.reason}\n"
    parts = [
        table(found),
        legend(found),
        tree(found),
        choices(found),
        bindings(found, choose(found, range(len(found.gpus)), len(found.gpus))),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def test_there_are_the_machines_that_the_documentation_names() -> None:
    wanted = "dgx1_v100 dgx2_v100 dgx_a100 h200_x2 hgx_h100 mig no_driver no_gpu nvl_pairs pcie_one_socket pcie_two_sockets wsl"
    assert wanted.split() == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_whole_output(name: str, update_golden: bool) -> None:
    path = Path(__file__).parent / "golden" / f"{name}.txt"
    text = whole(matrix(name))
    if update_golden:
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize("name", NAMES)
def test_blanks_read_as_tabs_do(name: str) -> None:
    """Tables come out of issues and web pages with blanks for tabs, without the driver's underline."""
    text = (MATRICES / f"{name}.txt").read_text()
    pasted = text.replace("\x1b[4m", "").replace("\x1b[0m", "").expandtabs(8)
    assert parse(pasted) == parse(text)
    assert parse("\n".join(line.strip() for line in pasted.splitlines())) == parse(text)
    assert parse(text.replace("\n", "\r\n")) == parse(text)


def test_islands_and_nodes() -> None:
    assert matrix("nvl_pairs").islands == ((0, 1), (2, 3), (4, 5), (6, 7))
    assert matrix("nvl_pairs").numa_nodes == ((0, 1, 2, 3), (4, 5, 6, 7))
    # a mesh: 0 and 5 have no link of their own, but 1 and 4 join them
    assert matrix("dgx1_v100").link(0, 5) == "SYS"
    assert matrix("dgx1_v100").islands == (tuple(range(8)),)
    # that table has no NUMA column: equal CPUs are one node
    assert matrix("dgx1_v100").numa_nodes == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert matrix("dgx_a100").numa_nodes == ((0, 1), (2, 3), (4, 5), (6, 7))
    assert [gpu.numa_node for gpu in matrix("dgx_a100").gpus] == [3, 3, 1, 1, 7, 7, 5, 5]


def test_network_cards_have_their_names() -> None:
    found = matrix("dgx_a100")
    assert [nic.name for nic in found.nics] == [f"mlx5_{i}" for i in range(10)]
    assert found.nic_links[0][:3] == ("PXB", "PXB", "SYS")
    assert [nic.name for nic in matrix("pcie_one_socket").nics] == ["mlx5_0"]


@pytest.mark.parametrize("text", ["", "\n\n", "bash: nvidia-smi: command not found", "GPU", "GPU0 X", "\x1b[4m", "GPU0\t X \t0-7\n"])
def test_no_table_is_no_error(text: str) -> None:
    found = parse(text, reason="there is none")
    assert found == Matrix(reason="there is none")
    assert parse(text).reason != ""


def test_a_damaged_table_keeps_what_can_be_read() -> None:
    text = "\tGPU0\tGPU1\tGPU2\tCPU Affinity\nGPU0\t X \tNV4\tODD\t0-3\nGPU1\tNV4\t X \n"
    found = parse(text)
    assert found.gpus == (Device(name="GPU0", cpus=(0, 1, 2, 3)), Device(name="GPU1"))
    assert found.links == ((SELF, "NV4"), ("NV4", SELF))
    lost = parse("\tGPU0\tGPU1\nGPU0\t X \tODD\nGPU1\n")
    assert lost.links == ((SELF, UNKNOWN), (UNKNOWN, UNKNOWN))


@given(st.text(alphabet="GPU01 \tXNVSYSPIXODE/A-,\n:mlx5_\x1b[4m"))
def test_nothing_raises(text: str) -> None:
    found = parse(text)
    assert len(found.links) == len(found.gpus)
    assert bool(found.gpus) or found.reason
    choose(found, range(len(found.gpus)), len(found.gpus))


@given(st.frozensets(st.integers(0, 300), max_size=40))
def test_cpu_lists(cpus: frozenset[int]) -> None:
    assert cpu_list(cpu_text(sorted(cpus))) == tuple(sorted(cpus))


@pytest.mark.parametrize("text", ["N/A", "", "0-", "1-2-3", "a", "0-99999999999"])
def test_what_is_no_cpu_list(text: str) -> None:
    assert cpu_list(text) == ()


def test_links() -> None:
    assert [link_name(text) for text in (" X ", "NV12", "SOC", "pix", "NV", "", "NODENODE")] == ["X", "NV12", "SYS", "PIX", "?", "?", "?"]
    assert [nvlinks(link) for link in ("NV18", "NV1", "SYS", "X")] == [18, 1, 0, 0]
    order = ["X", "NV1", *HOPS]
    assert [hops(link) for link in order] == [0, 0, 1, 2, 3, 4, 5]
    assert hops(UNKNOWN) == hops("SYS")
