"""Text of `nvidia-smi topo -m` -> Matrix. As drivers from 2015 on print it, and as people paste it, with blanks for tabs."""

from __future__ import annotations

import re

from zerocfg.topology.matrix import UNKNOWN, Device, Matrix, cpu_list, link_name

_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
_GPU = re.compile(r"GPU\d+")
_TRAILING = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")
_NIC_LEGEND = re.compile(r"^\s*(NIC\d+):\s*(\S+)\s*$", re.MULTILINE)


def parse(text: str, *, reason: str = "") -> Matrix:
    """No GPU in the text is no error: the matrix is empty and says why (`reason`, else the text's own first line)."""
    lines = [_ESCAPE.sub("", line).rstrip() for line in text.splitlines()]
    start = next((i for i, line in enumerate(lines) if _is_header(line)), None)
    if start is None:
        said = next((line.strip() for line in lines if line.strip()), "")
        return Matrix(reason=reason or said or "nvidia-smi printed nothing")
    columns = _columns(lines[start])
    rows = {words[0]: words[1:] for line in lines[start + 1 :] if (words := line.split()) and words[0] in columns}
    gpus = [name for name in columns if _GPU.fullmatch(name) and name in rows]
    if not gpus:
        return Matrix(reason=reason or "nvidia-smi listed no GPU")
    nics = [name for name in columns if not _GPU.fullmatch(name)]
    known = dict(_NIC_LEGEND.findall("\n".join(lines)))
    return Matrix(
        gpus=tuple(_gpu(name, rows[name][len(columns) :]) for name in gpus),
        links=tuple(tuple(_cell(rows, columns, a, b) for b in gpus) for a in gpus),
        nics=tuple(Device(name=known.get(name, name)) for name in nics),
        nic_links=tuple(tuple(_cell(rows, columns, a, b) for b in nics) for a in gpus),
    )


def _is_header(line: str) -> bool:
    """The line of column names; the first GPU's own row goes on with X."""
    words = line.split()
    return words[:1] == ["GPU0"] and words[1:2] != ["X"]


def _columns(header: str) -> list[str]:
    """Names of the devices; the columns after them are told by their names."""
    for name in _TRAILING:
        header = header.replace(name, " ")
    return header.split()


def _cell(rows: dict[str, list[str]], columns: list[str], a: str, b: str) -> str:
    cells = rows[a]
    place = columns.index(b)
    return link_name(cells[place]) if place < len(cells) else UNKNOWN


def _gpu(name: str, rest: list[str]) -> Device:
    """rest: what follows the links: CPU affinity, NUMA affinity, GPU NUMA ID, each of which may be missing."""
    # Without CPUs (WSL, some virtual machines) the cells are blank and what is left are N/A or a bare number.
    cpus = cpu_list(rest[0]) if rest and (len(rest) > 1 or "-" in rest[0] or "," in rest[0]) else ()
    node = rest[1] if cpus and len(rest) > 1 else ""
    return Device(name=name, cpus=cpus, numa_node=int(node) if node.isdigit() else -1)
