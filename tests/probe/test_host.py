from __future__ import annotations

from pathlib import Path

import pytest

from zerocfg.probe.host import Host, read_host

GIB = 2**30


class Machine:
    """Files of /proc and /sys under a folder."""

    def __init__(self, root: Path, *, memory_kib: int = 64 * 2**20) -> None:
        self.root = root
        self.write("proc/meminfo", f"MemTotal:       {memory_kib} kB\nMemFree: 1 kB\n")

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")

    def cores(self, *siblings: str, name: str = "core_cpus_list") -> None:
        for text in siblings:
            for cpu in text.split(","):
                self.write(f"sys/devices/system/cpu/cpu{cpu}/topology/{name}", text)

    def read(self, *cpus: int) -> Host:
        return read_host(self.root, frozenset(cpus))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_plain_machine(machine: Machine) -> None:
    assert machine.read(0, 1, 2, 3) == Host(cores=4, memory_bytes=64 * GIB, numa_nodes=1)


@pytest.mark.parametrize("name", ["core_cpus_list", "thread_siblings_list"])
def test_hyper_threads_of_a_core_count_once(machine: Machine, name: str) -> None:
    machine.cores("0,2", "1,3", name=name)
    assert machine.read(0, 1, 2, 3).cores == 2
    assert machine.read(0, 2).cores == 1
    assert machine.read(0, 3).cores == 2


@pytest.mark.parametrize(("limit", "cores"), [("max 100000", 8), ("300000 100000", 3), ("250000 100000", 2), ("50000 100000", 1), ("", 8)])
def test_cpu_quota_of_cgroup_v2(machine: Machine, limit: str, cores: int) -> None:
    machine.write("proc/self/cgroup", "0::/slice/job")
    machine.write("sys/fs/cgroup/slice/job/cpu.max", limit)
    assert machine.read(*range(8)).cores == cores


@pytest.mark.parametrize(("quota", "cores"), [("-1", 8), ("400000", 4)])
def test_cpu_quota_of_cgroup_v1(machine: Machine, quota: str, cores: int) -> None:
    machine.write("proc/self/cgroup", "4:memory:/job\n3:cpu,cpuacct:/job\n0::/")
    machine.write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", quota)
    machine.write("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000")
    assert machine.read(*range(8)).cores == cores


def test_the_tightest_memory_limit_on_the_way_up_binds(machine: Machine) -> None:
    machine.write("proc/self/cgroup", "0::/slice/job/step")
    machine.write("sys/fs/cgroup/slice/memory.max", str(100 * GIB))
    machine.write("sys/fs/cgroup/slice/job/memory.max", str(8 * GIB))
    machine.write("sys/fs/cgroup/slice/job/step/memory.max", "max")
    assert machine.read(0).memory_bytes == 8 * GIB


def test_memory_limit_of_cgroup_v1(machine: Machine) -> None:
    machine.write("proc/self/cgroup", "4:memory:/job")
    machine.write("sys/fs/cgroup/memory/memory.limit_in_bytes", str(2**63 - 4096))
    machine.write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", str(4 * GIB))
    assert machine.read(0).memory_bytes == 4 * GIB


def test_no_limit_leaves_the_machines_memory(machine: Machine) -> None:
    machine.write("proc/self/cgroup", "4:memory:/")
    machine.write("sys/fs/cgroup/memory/memory.limit_in_bytes", str(2**63 - 4096))
    assert machine.read(0).memory_bytes == 64 * GIB


def test_in_a_container_the_group_lies_above_the_mount(machine: Machine) -> None:
    machine.write("proc/self/cgroup", "0::/docker/0123abcd")
    machine.write("sys/fs/cgroup/memory.max", str(6 * GIB))
    machine.write("sys/fs/cgroup/cpu.max", "200000 100000")
    assert machine.read(*range(8)) == Host(cores=2, memory_bytes=6 * GIB, numa_nodes=1)


def test_numa_nodes_with_a_usable_cpu(machine: Machine) -> None:
    for node, cpus in enumerate(("0-1,4", "2-3", "")):
        machine.write(f"sys/devices/system/node/node{node}/cpulist", cpus)
    assert machine.read(0, 1, 2, 3, 4).numa_nodes == 2
    assert machine.read(2, 3).numa_nodes == 1


def test_nothing_readable(tmp_path: Path) -> None:
    assert read_host(tmp_path, frozenset({0, 1})) == Host(cores=2, memory_bytes=0, numa_nodes=1)


def test_this_machine() -> None:
    host = read_host()
    assert host.cores >= 1
    assert host.memory_bytes > 2**28
    assert host.numa_nodes >= 1
