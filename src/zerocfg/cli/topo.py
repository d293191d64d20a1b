"""zerocfg topo: how the GPUs are linked, and which of them a job gets."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from zerocfg.cli import output
from zerocfg.doctor.machine import LocalMachine, Machine
from zerocfg.errors import ZerocfgError
from zerocfg.probe.topology import read_matrix
from zerocfg.topology.binding import bind
from zerocfg.topology.choose import choose
from zerocfg.topology.draw import bindings, cells, choices, legend, table, tree
from zerocfg.topology.matrix import Matrix, nvlinks
from zerocfg.topology.parse import parse


class NotChosen(ZerocfgError):
    """--gpus or --free asks for what the machine does not have."""


def topo_command(
    *, gpus: int | None = None, free: str | None = None, file: str | None = None, plot: str | None = None, as_json: bool = False
) -> int:
    """Print the link matrix, the islands, and the choice for a job. Exit status 1 where there is no GPU.

    gpus: of the job, null: all that are free. free: "0,2,3", null: all. file: text of `nvidia-smi topo -m`, - for stdin; null: this
    machine. as_json: {gpus, links, nics, islands, numa_nodes, choice, numa_binding, ranks, reason}.
    """
    machine = LocalMachine()
    matrix = parse(_text(file)) if file is not None else read(machine)
    nodes = machine.detected().numa_nodes if file is None else 0
    if not matrix.gpus:
        if as_json:
            output.product_json(described(matrix, (), nodes))
        else:
            output.product(f"no GPU: {matrix.reason}")
        return 1
    chosen = _chosen(matrix, gpus, free)
    if as_json:
        output.product_json(described(matrix, chosen, nodes))
        return _drawn(plot, matrix, chosen)
    if output.colours():
        _show_table(matrix)
    else:
        output.product(table(matrix))
    picked = ",".join(map(str, chosen))
    rest = [legend(matrix), tree(matrix), "a job on the idle machine gets\n" + choices(matrix, nodes)]
    rest.append(f"GPUs {picked}" + (f" of the free {free}" if free else "") + ":\n" + bindings(matrix, chosen, nodes))
    output.product("\n" + "\n\n".join(filter(None, rest)))
    return _drawn(plot, matrix, chosen)


def _drawn(plot: str | None, matrix: Matrix, chosen: Sequence[int]) -> int:
    if plot is None:
        return 0
    from zerocfg.cli.plots import draw
    from zerocfg.cli.plots_machine import topology_plot

    return draw(plot, lambda file: topology_plot(matrix, chosen, file))


def read(machine: Machine) -> Matrix:
    """This machine's. nvidia-smi knows the network cards too; NVML needs no program."""
    if machine.which("nvidia-smi"):
        asked = machine.run("nvidia-smi", "topo", "-m", timeout=20.0)
        found = parse(asked.stdout, reason=asked.said if not asked.ok else "")
        if found.gpus:
            return found
    return read_matrix()


def described(matrix: Matrix, chosen: tuple[int, ...], numa_nodes: int) -> dict[str, Any]:
    binding = bind(matrix, chosen, numa_nodes)
    return {
        "gpus": [{"name": gpu.name, "cpus": list(gpu.cpus), "numa_node": gpu.numa_node} for gpu in matrix.gpus],
        "links": [list(row) for row in matrix.links],
        "nics": [{"name": nic.name, "links": [row[i] for row in matrix.nic_links]} for i, nic in enumerate(matrix.nics)],
        "islands": [list(group) for group in matrix.islands],
        "numa_nodes": [list(group) for group in matrix.numa_nodes],
        "choice": list(chosen),
        "numa_binding": binding.numa_binding,
        "ranks": [{"gpu": rank.gpu, "numa_node": rank.numa_node, "cpus_per_rank": rank.cpus_per_rank} for rank in binding.ranks],
        "reason": matrix.reason,
    }


def _chosen(matrix: Matrix, gpus: int | None, free: str | None) -> tuple[int, ...]:
    try:
        numbers = [int(part) for part in free.split(",")] if free is not None else list(range(len(matrix.gpus)))
        return choose(matrix, numbers, len(set(numbers)) if gpus is None else gpus)
    except ValueError as problem:
        given = " ".join(f"--{name} {value}" for name, value in (("gpus", gpus), ("free", free)) if value is not None)
        raise NotChosen(f"{given}: {problem}") from None


def _text(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8", errors="replace")
    except OSError as problem:
        raise NotChosen(f"--file {file} cannot be read: {problem.strerror}") from None


def _show_table(matrix: Matrix) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    header, *rows = cells(matrix)
    shown = Table(box=None, pad_edge=False)
    for title in header:
        shown.add_column(title)
    for row in rows:
        shown.add_row(*(Text(cell, style=_style(cell)) for cell in row))
    Console().print(shown)


def _style(cell: str) -> str:
    if nvlinks(cell):
        return "bold green"
    return {"PIX": "green", "PXB": "cyan", "PHB": "yellow", "NODE": "yellow", "SYS": "red", "X": "dim"}.get(cell, "")
