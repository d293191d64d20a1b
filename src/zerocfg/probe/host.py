"""Cores, memory and NUMA nodes that this process may use: affinity and cgroup limits (v1 and v2) respected."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Host:
    cores: int
    """Physical cores, at least 1: two hyper-threads count once, as they share the vector units that CPU Adam lives on."""
    memory_bytes: int
    numa_nodes: int
    """Nodes with at least one usable CPU, at least 1."""


def read_host(root: Path = Path("/"), affinity: frozenset[int] | None = None) -> Host:
    """Within the limits of this process: CPU affinity (null: its own), cgroup quota and memory. root: where /proc and /sys are."""
    cpus = _affinity() if affinity is None else affinity
    groups = _cgroups(root)
    cores = len({_siblings(root, cpu) for cpu in cpus}) or 1
    quota = _cpu_quota(root, groups)
    if quota is not None:
        cores = max(1, min(cores, int(quota)))
    memory = [m for m in (_mem_total(root), *_memory_limits(root, groups)) if m > 0]
    return Host(cores, min(memory, default=0), _numa_nodes(root, cpus))


def _affinity() -> frozenset[int]:
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _siblings(root: Path, cpu: int) -> str:
    """The same text for all hyper-threads of a core."""
    topology = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
    return _text(topology / "core_cpus_list") or _text(topology / "thread_siblings_list") or str(cpu)


def _mem_total(root: Path) -> int:
    for line in _text(root / "proc/meminfo").splitlines():
        key, _, value = line.partition(":")
        if key == "MemTotal":
            return int(value.split()[0]) * 1024
    if root == Path("/") and hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return 0


def _cgroups(root: Path) -> dict[str, str]:
    """Controller -> this process's group; "" is the v2 hierarchy."""
    groups: dict[str, str] = {}
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            groups[controller] = path
    return groups


def _folders(mount: Path, group: str) -> Iterator[Path]:
    """The group's folder and its ancestors: a limit binds at every level. In a container the path may start above the mount;
    then the mount itself is the group."""
    parts = [p for p in group.split("/") if p and p != ".."]
    for depth in range(len(parts), -1, -1):
        folder = mount.joinpath(*parts[:depth])
        if folder.is_dir():
            yield folder


def _cpu_quota(root: Path, groups: dict[str, str]) -> float | None:
    """The tightest limit, in CPUs."""
    mount = root / "sys/fs/cgroup"
    quotas: list[float] = []
    for folder in _folders(mount, groups.get("", "")):
        quota, _, period = _text(folder / "cpu.max").partition(" ")
        if quota.isdigit() and period.isdigit() and int(period):
            quotas.append(int(quota) / int(period))
    for folder in _folders(mount / "cpu", groups.get("cpu", "")):
        quota, period = _text(folder / "cpu.cfs_quota_us"), _text(folder / "cpu.cfs_period_us")
        if quota.isdigit() and period.isdigit() and int(period):
            quotas.append(int(quota) / int(period))
    return min(quotas, default=None)


def _memory_limits(root: Path, groups: dict[str, str]) -> list[int]:
    mount = root / "sys/fs/cgroup"
    texts = [_text(folder / "memory.max") for folder in _folders(mount, groups.get("", ""))]
    texts += [_text(folder / "memory.limit_in_bytes") for folder in _folders(mount / "memory", groups.get("memory", ""))]
    # v2 says max, v1 a number near 2**63, for no limit; the caller takes the smallest
    return [int(text) for text in texts if text.isdigit()]


def _numa_nodes(root: Path, cpus: frozenset[int]) -> int:
    lists = (_text(path) for path in sorted((root / "sys/devices/system/node").glob("node[0-9]*/cpulist")))
    return sum(1 for text in lists if cpus & _cpu_list(text)) or 1


def _cpu_list(text: str) -> frozenset[int]:
    """0-3,8 -> {0, 1, 2, 3, 8}."""
    cpus: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return frozenset(cpus)
