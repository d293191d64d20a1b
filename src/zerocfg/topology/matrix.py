"""The link matrix of one machine. Link names are nvidia-smi's: NV# (bonded NVLinks), PIX, PXB, PHB, NODE, SYS."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

SELF = "X"
UNKNOWN = "?"
"""What NVML or a damaged table does not say."""
HOPS: dict[str, int] = {"PIX": 1, "PXB": 2, "PHB": 3, "NODE": 4, "SYS": 5}
"""What lies between two devices, the fewer the better: one PCIe switch, several, a host bridge, several of a NUMA node, two nodes."""
MEANING: dict[str, str] = {
    "NV#": "# NVLinks bonded together",
    "PIX": "at most one PCIe switch",
    "PXB": "several PCIe switches",
    "PHB": "the CPU's PCIe host bridge",
    "NODE": "several host bridges of one NUMA node",
    "SYS": "the link between NUMA nodes",
    UNKNOWN: "not told",
}
_OLD_NAMES = {"SOC": "SYS"}
"""Drivers before 2018 say SOC for SYS."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Device:
    """A GPU or a network card."""

    name: str
    """GPU0; a card's own name where it is known, mlx5_0."""
    cpus: tuple[int, ...] = ()
    """CPUs beside it; empty: not told."""
    numa_node: int = -1
    """-1: not told, or the machine has one node."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Matrix:
    """links[i][j]: between GPU i and GPU j. nic_links[i][k]: between GPU i and network card k."""

    gpus: tuple[Device, ...] = ()
    links: tuple[tuple[str, ...], ...] = ()
    nics: tuple[Device, ...] = ()
    nic_links: tuple[tuple[str, ...], ...] = ()
    reason: str = ""
    """Why there are no GPUs; empty where there are some."""

    def link(self, a: int, b: int) -> str:
        return self.links[a][b]

    def pairs(self) -> Iterator[tuple[int, int, str]]:
        for a in range(len(self.gpus)):
            for b in range(a + 1, len(self.gpus)):
                yield a, b, self.links[a][b]

    @property
    def islands(self) -> tuple[tuple[int, ...], ...]:
        """GPUs that NVLinks join, directly or over others; a GPU without NVLink is an island of its own. In order of their first GPU."""
        island = list(range(len(self.gpus)))
        for a, b, link in self.pairs():
            if nvlinks(link):
                old, new = max(island[a], island[b]), min(island[a], island[b])
                island = [new if i == old else i for i in island]
        return _groups(island)

    @property
    def numa_nodes(self) -> tuple[tuple[int, ...], ...]:
        """GPUs by NUMA node, in order of their first GPU. Without a word on it, equal CPUs are one node."""
        seen: list[object] = [gpu.numa_node if gpu.numa_node >= 0 else gpu.cpus for gpu in self.gpus]
        return _groups([seen.index(key) for key in seen])


def nvlinks(link: str) -> int:
    """Number of bonded NVLinks; 0 for any other link."""
    found = re.fullmatch(r"NV(\d+)", link)
    return int(found[1]) if found else 0


def hops(link: str) -> int:
    """0 for NVLink, then as HOPS; what is not told counts as the worst."""
    return 0 if link == SELF or nvlinks(link) else HOPS.get(link, HOPS["SYS"])


def link_name(text: str) -> str:
    """A cell of nvidia-smi's table; anything else is UNKNOWN."""
    text = _OLD_NAMES.get(text.strip().upper(), text.strip().upper())
    return text if text == SELF or text in HOPS or nvlinks(text) else UNKNOWN


def cpu_list(text: str) -> tuple[int, ...]:
    """0-3,8 -> (0, 1, 2, 3, 8); empty for N/A and anything else that is no list."""
    cpus: list[int] = []
    for part in text.replace(" ", "").split(","):
        ends = part.split("-")
        if len(ends) > 2 or not all(end.isdigit() and len(end) < 7 for end in ends):
            return ()
        cpus += range(int(ends[0]), int(ends[-1]) + 1)
    return tuple(cpus)


def cpu_text(cpus: Sequence[int]) -> str:
    """(0, 1, 2, 3, 8) -> 0-3,8."""
    parts: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if parts and parts[-1][-1] == cpu - 1:
            parts[-1] = [parts[-1][0], cpu]
        else:
            parts.append([cpu])
    return ",".join("-".join(map(str, part)) for part in parts)


def _groups(keys: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(i for i, k in enumerate(keys) if k == key) for key in dict.fromkeys(keys))
