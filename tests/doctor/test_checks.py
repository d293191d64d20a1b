"""Each faulty set-up is named with its fix in one line; a sound machine has nothing to complain about."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from tests.doctor.fake_machine import GIB, NO_GPUS, TORCH_CPU, FakeMachine, gpu, state
from zerocfg.compiler import compile_run
from zerocfg.doctor import Needs, Status, diagnose
from zerocfg.doctor.checks.ops import ops_needed
from zerocfg.doctor.codes import CODES
from zerocfg.doctor.diagnose import CHECKS, Check
from zerocfg.doctor.finding import Finding
from zerocfg.doctor.machine import TIMED_OUT, Ran, Space
from zerocfg.probe.health import Health

Make = Callable[..., dict[str, Any]]
OK, WARN, FAIL = Status.OK, Status.WARN, Status.FAIL
H200: dict[str, Any] = {
    "hardware": {
        "name": "h200x8",
        "accelerator": "cuda",
        "gpu": "H200-SXM-141GB",
        "num_nodes": 1,
        "gpus_per_node": 8,
        "memory_bytes": 141 * GIB,
        "compute_capability": "9.0",
        "link": "nvswitch",
        "link_gbps": 450.0,
        "p2p": True,
        "network": "infiniband",
        "network_gbps": 400.0,
        "cpus_per_node": 64,
        "host_memory_bytes": 1000 * GIB,
        "numa_nodes": 2,
    }
}
CPU = {"hardware.accelerator": "cpu", "hardware.gpus_per_node": 2, "hardware.numa_nodes": 1, "hardware.network": "tcp"}
TWO_NODES = {"hardware.num_nodes": 2}
NVME = {"offload": {"optimizer": "nvme", "nvme_path": "/nvme"}}
IB = {
    "/sys/class/infiniband/mlx5_0/ports/1/state": "4: ACTIVE\n",
    "/sys/class/infiniband/mlx5_0/ports/1/rate": "400 Gb/sec (4X NDR)\n",
    "/sys/module/nvidia_peermem": "",
    "/usr/local/cuda/bin/nvcc": "",
}


@pytest.fixture
def needs(container: Make) -> Callable[..., Needs]:
    def make(changes: dict[str, Any] | None, **options: Any) -> Needs:
        if changes is None:
            return Needs(**options)
        made = container(changes)
        made["hardware"] = {**H200["hardware"], **{k.removeprefix("hardware."): v for k, v in changes.items() if k.startswith("hardware.")}}
        run = compile_run(made)
        return Needs(plan=run.plan, environment=run.environment, **options)

    return make


def found(machine: FakeMachine, needs: Needs) -> list[Finding]:
    findings = diagnose(machine, needs)
    assert all(finding.check for finding in findings)
    for finding in findings:
        # a complaint has a code with a line in the table and a fix; what is well has neither
        assert bool(finding.code) is bool(finding.fix) is (finding.status is not OK), finding
        assert not finding.code or finding.code in CODES
        assert "\n" not in finding.text + finding.fix
    return findings


def complaints(machine: FakeMachine, needs: Needs) -> list[tuple[str, str, str]]:
    return [(f.status.label, f.code, f.check) for f in found(machine, needs) if f.status is not OK]


@pytest.mark.parametrize("changes", [None, {}, CPU, TWO_NODES, NVME, {"offload.optimizer": "cpu"}])
def test_a_sound_machine(needs: Callable[..., Needs], changes: dict[str, Any] | None) -> None:
    assert complaints(FakeMachine(files=IB), needs(changes)) == []


def test_only_what_the_run_needs_is_looked_at(needs: Callable[..., Needs]) -> None:
    def checks(changes: dict[str, Any] | None, **options: Any) -> set[str]:
        return {f.check for f in found(FakeMachine(files=IB), needs(changes, **options))}

    everything = checks(None)
    assert {"driver", "gpus", "gpu health", "gpu links", "libraries", "infiniband"} <= everything
    assert checks(CPU) & {"driver", "gpus", "gpu health", "gpu links", "libraries", "infiniband", "nvme", "numa", "clock"} == set()
    assert "nvme" in checks(NVME)
    assert {"clock", "infiniband"} <= checks(TWO_NODES)
    # in a container the software is the image's
    docker = checks({"container.kind": "docker", "container.image": "zerocfg"})
    assert docker & {"python", "torch", "deepspeed", "ops", "libraries"} == set()
    assert "container" in docker
    # a run on this machine does not ask SLURM
    there = {
        "programs": SLURM,
        "answers": {"scontrol --version": Ran(0, "slurm 24.11.5"), "scontrol show config": Ran(0, "ClusterName = c")},
    }
    assert "slurm" not in {f.check for f in found(FakeMachine(**there), needs(CPU))}
    assert "slurm" in {f.check for f in found(FakeMachine(**there), needs(None))}
    # a login node is not the machine that the run is for
    assert checks({}, slurm=True) == {"python", "torch", "deepspeed", "libraries", "output", "environment", "slurm"}
    inside = {f.check for f in found(FakeMachine(files=IB, environ={"SLURM_JOB_ID": "1"}), needs({}, slurm=True))}
    assert {"driver", "gpus", "/dev/shm"} <= inside


class Case(NamedTuple):
    name: str
    code: str
    status: Status
    check: str
    machine: dict[str, Any]
    changes: dict[str, Any] | None
    says: tuple[str, ...]
    options: dict[str, Any] = {}  # noqa: RUF012 - never changed


def health(**changes: Any) -> Health:
    return Health(driver="580.95.05", cuda=(13, 0), gpus=(state(0, **changes), *(state(i) for i in range(1, 8))))


def detected(**changes: Any) -> Any:
    return dataclasses.replace(FakeMachine().machine, **changes)


def without(*programs: str) -> dict[str, str]:
    return {name: path for name, path in FakeMachine().programs.items() if name not in programs}


def fails_on(word: str, stderr: str) -> Callable[[tuple[str, ...], str], Ran]:
    return lambda command, source: Ran(1, "", stderr) if word in source else Ran(0)


SLURM = {**FakeMachine().programs, **{name: f"/usr/bin/{name}" for name in ("sbatch", "srun", "scontrol", "squeue")}}
CASES = [
    Case("old Python", "ZC820", FAIL, "python", {"python": (3, 9, 2)}, None, ("3.9.2", "3.10")),
    Case("no torch", "ZC821", FAIL, "torch", {"packages": {"deepspeed": "0.19.8"}, "texts": {}}, {}, ("pip install torch==",)),
    Case("no torch, no run", "ZC821", WARN, "torch", {"packages": {"deepspeed": "0.19.8"}, "texts": {}}, None, ("not installed",)),
    Case(
        "torch of a CPU",
        "ZC821",
        FAIL,
        "torch",
        {"packages": {"torch": "2.13.0+cpu", "deepspeed": "0.19.8"}, "texts": {"torch/version.py": TORCH_CPU}},
        {},
        ("build for the CPU", "h200x8", "pip install --force-reinstall torch==2.13.0:"),
    ),
    Case(
        "torch of a CPU beside GPUs",
        "ZC821",
        WARN,
        "torch",
        {"packages": {"torch": "2.13.0+cpu", "deepspeed": "0.19.8"}, "texts": {"torch/version.py": TORCH_CPU}},
        None,
        ("there are GPUs",),
    ),
    Case("old torch", "ZC821", FAIL, "torch", {"packages": {"torch": "2.4.1", "deepspeed": "0.19.8"}}, CPU, ("older than 2.7",)),
    Case(
        "old driver",
        "ZC822",
        FAIL,
        "driver",
        {"state": Health(driver="535.104.05", cuda=(12, 2), gpus=(state(0),))},
        {},
        ("535.104.05", "CUDA 13.0", "580", "torch==2.10.*"),
    ),
    Case(
        "very old driver",
        "ZC822",
        FAIL,
        "driver",
        {"state": Health(driver="418.87.00", cuda=(10, 1), gpus=(state(0),))},
        {},
        ("a newer driver",),
    ),
    Case(
        "no driver",
        "ZC822",
        FAIL,
        "driver",
        {"state": Health(reason="no NVIDIA driver is installed"), "machine": detected(gpus=())},
        {},
        ("no NVIDIA driver",),
    ),
    Case(
        "no driver in a container",
        "ZC822",
        FAIL,
        "driver",
        {"state": Health(reason="no NVIDIA driver is installed"), "files": {"/.dockerenv": ""}},
        {},
        ("--gpus all",),
    ),
    Case(
        "driver updated, not rebooted",
        "ZC822",
        FAIL,
        "driver",
        {"state": Health(reason="the driver's library and kernel module have different versions")},
        {},
        ("reboot",),
    ),
    Case(
        "no GPU",
        "ZC823",
        FAIL,
        "gpus",
        {"machine": dataclasses.replace(NO_GPUS, cpus=64, host_memory_bytes=1000 * GIB)},
        {},
        ("needs 8 GPUs", "has none", "no NVIDIA driver"),
    ),
    Case("no GPU, no run", "ZC823", WARN, "gpus", {"machine": NO_GPUS}, None, ("no GPU",)),
    Case("too few", "ZC823", FAIL, "gpus", {"machine": detected(gpus=tuple(gpu(i) for i in range(4)))}, {}, ("8 GPUs", "4 x NVIDIA H200")),
    Case("a mask", "ZC823", WARN, "gpus", {"machine": detected(reason="CUDA_VISIBLE_DEVICES=0,1,9: '9' names no GPU")}, None, ("'9'",)),
    Case(
        "mixed",
        "ZC823",
        WARN,
        "gpus",
        {"machine": detected(gpus=(*(gpu(i) for i in range(7)), gpu(7, "NVIDIA L4")))},
        {},
        ("different", "1 x NVIDIA L4"),
    ),
    Case(
        "V100 and CUDA 13",
        "ZC824",
        FAIL,
        "gpus",
        {"machine": detected(gpus=tuple(gpu(i, "Tesla V100-SXM2-32GB", (7, 0)) for i in range(8)))},
        {},
        ("7.0", "CUDA 13.0", "torch==2.10.*"),
    ),
    Case(
        "Blackwell and an old CUDA",
        "ZC824",
        FAIL,
        "gpus",
        {
            "machine": detected(gpus=tuple(gpu(i, "NVIDIA B200", (10, 0)) for i in range(8))),
            "texts": {"torch/version.py": "cuda: Optional[str] = '12.6'\n"},
            "packages": {"torch": "2.7.1", "deepspeed": "0.19.8"},
        },
        {},
        ("10.0", "12.6"),
    ),
    Case("ECC", "ZC825", FAIL, "gpu health", {"state": health(ecc_uncorrected=3)}, {}, ("GPU 0", "3 uncorrectable", "--gpu-reset -i 0")),
    Case("ECC, no run", "ZC825", WARN, "gpu health", {"state": health(ecc_uncorrected=3)}, None, ("GPU 0",)),
    Case("row pending", "ZC825", WARN, "gpu health", {"state": health(remap_pending=True)}, {}, ("next reset",)),
    Case("row failed", "ZC825", FAIL, "gpu health", {"state": health(remap_failed=True)}, {}, ("replace the GPU",)),
    Case("lost", "ZC825", FAIL, "gpu health", {"state": health(lost=True)}, {}, ("fallen off",)),
    Case(
        "Xid",
        "ZC825",
        WARN,
        "gpu health",
        {
            "answers": {
                **FakeMachine().answers,
                "dmesg": Ran(0, "[1.0] NVRM: Xid (PCI:0000:1b:00): 79, pid=1\n[2.0] NVRM: Xid (PCI:0000:1b:00): 31, pid=2\n"),
            }
        },
        {},
        ("Xid 79", "fallen off the bus"),
    ),
    Case("MIG", "ZC826", FAIL, "gpu health", {"state": health(mig=True)}, {}, ("GPU 0: in MIG mode", "-i 0 -mig 0")),
    Case("prohibited", "ZC826", FAIL, "gpu health", {"state": health(compute_prohibited=True)}, {}, ("-c DEFAULT",)),
    Case("throttled", "ZC826", WARN, "gpu health", {"state": health(throttled=("power brake",))}, {}, ("power brake",)),
    Case("busy", "ZC826", WARN, "gpu health", {"state": health(memory_used=100 * GIB)}, {}, ("100.0 of 141 GiB",)),
    Case("persistence", "ZC826", WARN, "gpu health", {"state": health(persistence=False)}, {}, ("nvidia-smi -pm 1",)),
    Case(
        "fabric manager", "ZC827", FAIL, "gpu links", {"state": health(fabric="in progress")}, {}, ("in progress", "nvidia-fabricmanager")
    ),
    Case("NVLink down", "ZC827", WARN, "gpu links", {"state": health(nvlinks=16, nvlinks_down=2)}, {}, ("GPUs 0",)),
    Case("SXM on PCIe", "ZC827", WARN, "gpu links", {"machine": detected(link="pcie")}, {}, ("H200-SXM-141GB", "not in use")),
    Case(
        "no P2P",
        "ZC827",
        WARN,
        "gpu links",
        {"machine": detected(link="pcie", p2p=False, gpus=tuple(gpu(i, "NVIDIA GeForce RTX 4090", (8, 9)) for i in range(8)))},
        {},
        ("host memory",),
    ),
    Case(
        "IOMMU",
        "ZC827",
        WARN,
        "gpu links",
        {
            "machine": detected(link="pcie", gpus=tuple(gpu(i, "NVIDIA L40S", (8, 9)) for i in range(8))),
            "files": {**IB, "/sys/class/iommu/dmar0/x": ""},
        },
        {},
        ("IOMMU",),
    ),
    Case("PCIe lanes", "ZC827", WARN, "gpu links", {"state": health(pcie_width=8)}, {}, ("PCIe lanes",)),
    Case(
        "another NCCL",
        "ZC830",
        WARN,
        "libraries",
        {"environ": {"LD_LIBRARY_PATH": "/opt/nccl/lib"}, "files": {**IB, "/opt/nccl/lib/libnccl.so.2.19.3": ""}},
        {},
        ("libnccl.so.2.19.3", "NCCL 2.29.7", "LD_LIBRARY_PATH"),
    ),
    Case("preloaded NCCL", "ZC830", WARN, "libraries", {"environ": {"LD_PRELOAD": "/x/libnccl.so.2"}}, {}, ("unset LD_PRELOAD",)),
    Case("no DeepSpeed", "ZC831", FAIL, "deepspeed", {"packages": {"torch": "2.13.0+cu130"}}, {}, ("not installed",)),
    Case("old DeepSpeed", "ZC831", FAIL, "deepspeed", {"packages": {"torch": "2.13.0+cu130", "deepspeed": "0.14.0"}}, {}, ("0.14.0",)),
    Case("no ninja", "ZC832", FAIL, "ops", {"programs": without("ninja")}, {}, ("fused_adam", "pip install ninja")),
    Case("no ninja, no run", "ZC832", WARN, "ops", {"programs": without("ninja")}, None, ("ninja",)),
    Case("no g++", "ZC832", FAIL, "ops", {"programs": without("g++")}, {"offload.optimizer": "cpu"}, ("cpu_adam", "g++")),
    Case(
        "no headers",
        "ZC832",
        FAIL,
        "ops",
        {"compiles": fails_on("Python.h", "op.cpp:1:10: fatal error: Python.h: No such file")},
        {"offload.optimizer": "cpu"},
        ("apt-get install python3-dev",),
    ),
    Case(
        "no libaio",
        "ZC832",
        FAIL,
        "ops",
        {"compiles": fails_on("libaio.h", "op.cpp:1:10: fatal error: libaio.h: No such file")},
        NVME,
        ("async_io", "libaio-dev"),
    ),
    Case("no nvcc", "ZC832", FAIL, "ops", {"programs": without("nvcc"), "files": {}}, {}, ("no nvcc", "CUDA_HOME")),
    Case("CUDA_HOME without nvcc", "ZC832", FAIL, "ops", {"environ": {"CUDA_HOME": "/opt/cuda"}}, {}, ("CUDA_HOME=/opt/cuda",)),
    Case(
        "another CUDA",
        "ZC832",
        FAIL,
        "ops",
        {"answers": {"/usr/local/cuda/bin/nvcc --version": Ran(0, "release 12.4, V12.4.131")}},
        {},
        ("CUDA 12.4", "13.0"),
    ),
    Case(
        "nvcc and a new g++",
        "ZC832",
        FAIL,
        "ops",
        {"compiles": fails_on("cuda_fp16", "error: -- unsupported GNU version! gcc versions later than 13 are not supported!")},
        {},
        ("g++-12",),
    ),
    Case(
        "9.0a",
        "ZC833",
        FAIL,
        "op targets",
        {"environ": {"TORCH_CUDA_ARCH_LIST": "9.0a"}},
        {},
        ("9.0a", "export TORCH_CUDA_ARCH_LIST='9.0'"),
    ),
    Case("9.0a, no run", "ZC833", WARN, "op targets", {"environ": {"TORCH_CUDA_ARCH_LIST": "8.0;9.0a"}}, None, ("9.0a",)),
    Case(
        "arch of another GPU",
        "ZC833",
        FAIL,
        "op targets",
        {"environ": {"TORCH_CUDA_ARCH_LIST": "8.0;8.6"}},
        {},
        ("compute capability 9.0",),
    ),
    Case("op cache", "ZC833", FAIL, "op cache", {"read_only": frozenset({"~/.cache/torch_extensions"})}, {}, ("TORCH_EXTENSIONS_DIR",)),
    Case(
        "op cache on NFS",
        "ZC833",
        WARN,
        "op cache",
        {"spaces": {**FakeMachine().spaces, "~/.cache/torch_extensions": Space(total=1, free=1, kind="nfs4")}},
        {},
        ("nfs4",),
    ),
    Case(
        "/dev/shm of 64 MB",
        "ZC840",
        FAIL,
        "/dev/shm",
        {"spaces": {**FakeMachine().spaces, "/dev/shm": Space(total=64 * 2**20, free=64 * 2**20, kind="tmpfs")}},
        {},
        ("64 MiB", "--ipc=host"),
    ),
    Case(
        "/dev/shm of 64 MB, no run",
        "ZC840",
        WARN,
        "/dev/shm",
        {"spaces": {**FakeMachine().spaces, "/dev/shm": Space(total=64 * 2**20, free=64 * 2**20, kind="tmpfs")}},
        None,
        ("64 MiB",),
    ),
    Case(
        "/dev/shm of 64 MB, data loaders",
        "ZC840",
        FAIL,
        "/dev/shm",
        {"spaces": {**FakeMachine().spaces, "/dev/shm": Space(total=64 * 2**20, free=64 * 2**20, kind="tmpfs")}},
        {**CPU, "train.num_workers": 2},
        ("64 MiB",),
    ),
    Case(
        "/dev/shm full",
        "ZC840",
        WARN,
        "/dev/shm",
        {"spaces": {**FakeMachine().spaces, "/dev/shm": Space(total=64 * GIB, free=2**20, kind="tmpfs")}},
        {},
        ("1 MiB of it free",),
    ),
    Case("open files", "ZC841", WARN, "limits", {"limits": {"NOFILE": 1024, "MEMLOCK": -1}}, {}, ("1024", "ulimit -n")),
    Case(
        "locked memory, RDMA",
        "ZC841",
        FAIL,
        "limits",
        {"limits": {"NOFILE": 65536, "MEMLOCK": 65536}, "files": IB},
        TWO_NODES,
        ("64 KiB", "ulimit -l unlimited"),
    ),
    Case("locked memory, NVMe", "ZC841", FAIL, "limits", {"limits": {"NOFILE": 65536, "MEMLOCK": 8 << 20}}, NVME, ("8 MiB", "NVMe")),
    Case("no numactl", "ZC842", FAIL, "numa", {"programs": without("numactl")}, {}, ("numactl", "torchrun.numa_binding=none")),
    Case("NUMA unknown", "ZC842", WARN, "numa", {"machine": detected(gpus=tuple(gpu(i, node=-1) for i in range(8)))}, {}, ("node 0",)),
    Case("fewer cores", "ZC843", WARN, "host", {"machine": detected(cpus=16)}, {}, ("16 cores here", "hardware.cpus_per_node=16")),
    Case(
        "less memory",
        "ZC843",
        FAIL,
        "host",
        {"machine": detected(host_memory_bytes=100 * GIB)},
        {"offload.optimizer": "cpu"},
        ("100 GiB here",),
    ),
    Case(
        "no such interface",
        "ZC850",
        FAIL,
        "interfaces",
        {},
        {"hardware.network_interface": "eth7"},
        ("NCCL_SOCKET_IFNAME=eth7", "lo, ib0, eth0", "hardware.network_interface="),
    ),
    Case(
        "no such interface, exported",
        "ZC850",
        FAIL,
        "interfaces",
        {"environ": {"NCCL_SOCKET_IFNAME": "=ib1"}},
        {},
        ("=ib1", "unset NCCL_SOCKET_IFNAME"),
    ),
    Case("interface, no run", "ZC850", WARN, "interfaces", {"environ": {"GLOO_SOCKET_IFNAME": "bond0"}}, None, ("bond0",)),
    Case("only a bridge", "ZC850", WARN, "interfaces", {"nets": ("lo", "docker0"), "files": IB}, TWO_NODES, ("docker0",)),
    Case(
        "loopback name of two nodes",
        "ZC851",
        FAIL,
        "host name",
        {"names_known": {"node1": ("127.0.1.1",)}, "files": IB},
        TWO_NODES,
        ("node1", "127.0.1.1", "loopback", "/etc/hosts"),
    ),
    Case(
        "loopback meeting point",
        "ZC851",
        FAIL,
        "host name",
        {
            "environ": {"ZEROCFG_RDZV_HOST": "localhost"},
            "names_known": {"node1": ("10.0.0.1",), "localhost": ("127.0.0.1", "::1")},
            "files": IB,
        },
        TWO_NODES,
        ("localhost", "ZEROCFG_RDZV_HOST"),
    ),
    Case("unknown name", "ZC851", FAIL, "host name", {"names_known": {}, "files": IB}, TWO_NODES, ("node1", "/etc/hosts")),
    Case("unknown name, one node", "ZC851", WARN, "host name", {"names_known": {}}, {}, ("node1",)),
    Case("no InfiniBand", "ZC852", FAIL, "infiniband", {}, TWO_NODES, ("hardware.network=infiniband", "hardware.network=tcp")),
    Case(
        "port down",
        "ZC852",
        FAIL,
        "infiniband",
        {"files": {**IB, "/sys/class/infiniband/mlx5_0/ports/1/state": "1: DOWN\n"}},
        TWO_NODES,
        ("mlx5_0:1 DOWN",),
    ),
    Case(
        "port down, no run",
        "ZC852",
        WARN,
        "infiniband",
        {"files": {**IB, "/sys/class/infiniband/mlx5_0/ports/1/state": "1: DOWN\n"}},
        None,
        ("DOWN",),
    ),
    Case(
        "no peermem",
        "ZC852",
        WARN,
        "infiniband",
        {"files": {k: v for k, v in IB.items() if "peermem" not in k}},
        TWO_NODES,
        ("nvidia-peermem",),
    ),
    Case("clock", "ZC853", WARN, "clock", {"clock": False, "files": IB}, TWO_NODES, ("not synchronized",)),
    Case("output read-only", "ZC860", FAIL, "output", {"read_only": frozenset({"outputs"})}, {}, ("outputs", "hydra.sweep.dir")),
    Case("output refused", "ZC860", FAIL, "output", {"speed": 0.0}, {}, ("could not be written",)),
    Case("output slow", "ZC860", WARN, "output", {"speed": 5e6}, {}, ("5 MB/s",)),
    Case(
        "output full",
        "ZC860",
        WARN,
        "output",
        {"spaces": {**FakeMachine().spaces, "outputs": Space(total=GIB, free=2**20, kind="ext4")}},
        {},
        ("more space",),
    ),
    Case(
        "no room for a checkpoint",
        "ZC860",
        FAIL,
        "output",
        {"spaces": {**FakeMachine().spaces, "outputs": Space(total=GIB, free=2**20, kind="ext4")}},
        {"checkpoint.every_steps": 10},
        ("one checkpoint takes",),
    ),
    Case(
        "no NVMe folder",
        "ZC861",
        FAIL,
        "nvme",
        {"spaces": {"/dev/shm": Space(total=64 * GIB, free=60 * GIB, kind="tmpfs")}},
        NVME,
        ("does not exist", "mkdir -p /nvme"),
    ),
    Case(
        "NVMe in memory",
        "ZC861",
        FAIL,
        "nvme",
        {"spaces": {**FakeMachine().spaces, "/nvme": Space(total=GIB, free=GIB, kind="tmpfs")}},
        NVME,
        ("tmpfs",),
    ),
    Case(
        "NVMe full",
        "ZC861",
        FAIL,
        "nvme",
        {"spaces": {**FakeMachine().spaces, "/nvme": Space(total=GIB, free=2**20, kind="xfs")}},
        NVME,
        ("0 GiB free",),
    ),
    Case("NVMe without O_DIRECT", "ZC861", FAIL, "nvme", {"direct_speed": 0.0}, NVME, ("O_DIRECT",)),
    Case(
        "NVMe on NFS",
        "ZC861",
        WARN,
        "nvme",
        {"spaces": {**FakeMachine().spaces, "/nvme": Space(total=7000 * GIB, free=7000 * GIB, kind="nfs4")}},
        NVME,
        ("nfs4",),
    ),
    Case("NVMe slow", "ZC861", WARN, "nvme", {"direct_speed": 1e8}, NVME, ("100 MB/s",)),
    Case("no SLURM", "ZC862", FAIL, "slurm", {}, {}, ("scontrol",), {"slurm": True}),
    Case(
        "SLURM silent",
        "ZC862",
        FAIL,
        "slurm",
        {"programs": SLURM, "answers": {"scontrol --version": Ran(0, "slurm 24.11.5\n"), "scontrol show config": Ran(TIMED_OUT)}},
        {},
        ("slurm 24.11.5", "slurmctld"),
        {"slurm": True},
    ),
    Case("SLURM silent, no run", "ZC862", WARN, "slurm", {"programs": SLURM}, None, ("SLURM",)),
    Case("no docker", "ZC863", FAIL, "container", {}, {"container.kind": "docker", "container.image": "x"}, ("docker",)),
    Case(
        "docker silent",
        "ZC863",
        FAIL,
        "container",
        {"programs": {**FakeMachine().programs, "docker": "/usr/bin/docker"}},
        {"container.kind": "docker", "container.image": "x"},
        ("does not answer",),
    ),
    Case(
        "docker without NVIDIA",
        "ZC863",
        WARN,
        "container",
        {
            "programs": {**FakeMachine().programs, "docker": "/usr/bin/docker"},
            "answers": {"docker info --format {{.ServerVersion}} {{json .Runtimes}}": Ran(0, '28.2.2 {"runc":{}}')},
        },
        {"container.kind": "docker", "container.image": "x"},
        ("nvidia-container-toolkit",),
    ),
    Case(
        "no image",
        "ZC863",
        WARN,
        "container",
        {
            "programs": {**FakeMachine().programs, "docker": "/usr/bin/docker"},
            "answers": {"docker info --format {{.ServerVersion}} {{json .Runtimes}}": Ran(0, '28.2.2 {"nvidia":{}}')},
        },
        {"container.kind": "docker", "container.image": "x"},
        ("docker build",),
    ),
    Case(
        "no .sif",
        "ZC863",
        FAIL,
        "container",
        {"programs": {**FakeMachine().programs, "apptainer": "/usr/bin/apptainer"}},
        {"container.kind": "apptainer", "container.image": "/x.sif"},
        ("/x.sif",),
    ),
    Case(
        "no pyxis",
        "ZC863",
        FAIL,
        "container",
        {"answers": {"srun --help": Ran(0, "  --nodes")}, "programs": SLURM},
        {"container.kind": "pyxis", "container.image": "/x.sqsh"},
        ("pyxis",),
        {"slurm": True},
    ),
    Case("P2P off", "ZC870", WARN, "environment", {"environ": {"NCCL_P2P_DISABLE": "1"}}, {}, ("NVLink", "unset NCCL_P2P_DISABLE")),
    Case("IB off", "ZC870", WARN, "environment", {"environ": {"NCCL_IB_DISABLE": "1"}, "files": IB}, TWO_NODES, ("TCP",)),
    Case("NVLS off", "ZC870", WARN, "environment", {"environ": {"NCCL_NVLS_ENABLE": "0"}}, {}, ("NVSwitch",)),
    Case("blocking", "ZC870", WARN, "environment", {"environ": {"CUDA_LAUNCH_BLOCKING": "1"}}, {}, ("each kernel",)),
    Case(
        "threads",
        "ZC870",
        WARN,
        "environment",
        {"environ": {"OMP_NUM_THREADS": "1"}},
        {"offload.optimizer": "cpu"},
        ("OMP_NUM_THREADS=1", "8 cores a rank"),
    ),
    Case(
        "a rank's environment", "ZC870", FAIL, "environment", {"environ": {"RANK": "0", "WORLD_SIZE": "1"}}, {}, ("unset RANK WORLD_SIZE",)
    ),
    Case("stubs", "ZC870", FAIL, "environment", {"environ": {"LD_LIBRARY_PATH": "/usr/local/cuda/lib64/stubs"}}, {}, ("libcuda.so",)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_faulty_set_up_is_named_with_its_fix(case: Case, needs: Callable[..., Needs]) -> None:
    findings = found(FakeMachine(**case.machine), needs(case.changes, **case.options))
    named = [f for f in findings if f.code == case.code and f.check == case.check and f.status is case.status]
    assert named, [f for f in findings if f.status is not OK]
    lines = [f"{f.text} | {f.fix}" for f in named]
    assert any(all(words in line for words in case.says) for line in lines), lines


def test_every_code_has_a_case() -> None:
    preflight = {"ZC880", "ZC881", "ZC882", "ZC890"}
    assert {case.code for case in CASES} | preflight == set(CODES)


@pytest.mark.parametrize(
    ("environ", "changes"),
    [
        ({"NCCL_P2P_DISABLE": "0"}, {}),
        ({"NCCL_IB_DISABLE": "1"}, {}),
        ({"NCCL_NVLS_ENABLE": "1"}, {}),
        ({"NCCL_ALGO": "Ring"}, {"env": {"NCCL_ALGO": "Ring"}}),
        ({"OMP_NUM_THREADS": "1"}, {}),
        ({"TORCH_CUDA_ARCH_LIST": "9.0"}, {}),
        ({"TORCH_CUDA_ARCH_LIST": "8.0+PTX"}, {}),
        ({"TORCH_CUDA_ARCH_LIST": "9.0a"}, CPU),
        ({"LD_LIBRARY_PATH": "/usr/local/cuda/lib64"}, {}),
        ({"NCCL_SOCKET_IFNAME": "eth,ib"}, {}),
        ({"NCCL_SOCKET_IFNAME": "^docker0"}, {}),
    ],
)
def test_what_is_no_trap(needs: Callable[..., Needs], environ: dict[str, str], changes: dict[str, Any]) -> None:
    assert complaints(FakeMachine(environ=environ, files=IB), needs(changes)) == []


def test_a_forward_compatible_libcuda_makes_up_for_an_old_driver(needs: Callable[..., Needs]) -> None:
    machine = FakeMachine(state=Health(driver="535.104.05", cuda=(13, 0), gpus=tuple(state(i) for i in range(8))))
    assert complaints(machine, needs({})) == []


def test_ops_that_were_compiled_at_installation_need_no_compiler(needs: Callable[..., Needs]) -> None:
    texts = {**FakeMachine().texts, "deepspeed/git_version_info_installed.py": "version='0.19.8'\ninstalled_ops={'fused_adam': True}\n"}
    assert complaints(FakeMachine(texts=texts, programs={"numactl": "/bin/numactl"}, files={}), needs({})) == []
    broken = {**FakeMachine().texts, "deepspeed/git_version_info_installed.py": "installed_ops={nothing"}
    assert complaints(FakeMachine(texts=broken, programs=without("ninja")), needs({})) == [("fail", "ZC832", "ops")]


@pytest.mark.parametrize(
    ("changes", "ops"),
    [
        ({}, ("fused_adam",)),
        ({"optimizer": {"type": "Lion", "lr": 1e-4}}, ("fused_lion",)),
        ({"offload.optimizer": "cpu"}, ("cpu_adam",)),
        (NVME, ("cpu_adam", "async_io")),
        ({"optimizer": {"type": None}}, ()),
        (CPU, ()),
        ({**TWO_NODES, "parallelism.zero_quantized_weights": True}, ("fused_adam", "quantizer")),
    ],
)
def test_ops_of_a_run(needs: Callable[..., Needs], changes: dict[str, Any], ops: tuple[str, ...]) -> None:
    assert ops_needed(needs(changes)) == ops


def test_what_several_gpus_have_in_common_is_said_once(needs: Callable[..., Needs]) -> None:
    both = Health(driver="580.95.05", cuda=(13, 0), gpus=(state(0, mig=True), state(1, ecc_uncorrected=2), state(2, mig=True)))
    lines = [(f.text, f.fix) for f in found(FakeMachine(state=both), needs({})) if f.check == "gpu health"]
    assert lines == [
        (
            "GPUs 0, 2: in MIG mode: a process uses one slice, and ranks on slices cannot use NCCL together",
            "sudo nvidia-smi -i 0,2 -mig 0, or hardware.gpus_per_node=1",
        ),
        ("GPU 1: 2 uncorrectable memory errors", "sudo nvidia-smi --gpu-reset -i 1, or reboot; again: replace it"),
    ]


def test_a_wrong_interface_is_named_with_a_right_one(needs: Callable[..., Needs]) -> None:
    (first, *_) = [f for f in found(FakeMachine(nets=("lo", "eth0")), needs({"hardware.network_interface": "ib9"})) if f.status is FAIL]
    assert (first.check, first.fix) == ("interfaces", "hardware.network_interface=eth0")
    (line,) = [f for f in found(FakeMachine(nets=("lo", "ib0"), environ={"NCCL_SOCKET_IFNAME": "x"}), needs({})) if f.check == "interfaces"]
    assert line.fix == "unset NCCL_SOCKET_IFNAME, or export NCCL_SOCKET_IFNAME=ib0"


def test_a_check_that_breaks_does_not_break_the_report(needs: Callable[..., Needs]) -> None:
    def broken(machine: object, needs: object) -> Any:
        raise RuntimeError("odd machine")

    findings = diagnose(FakeMachine(), needs({}), [Check("odd", broken), CHECKS[0]])  # type: ignore[arg-type]
    assert [(f.check, f.status, f.code) for f in findings] == [("odd", WARN, "ZC890"), ("python", OK, "")]
    assert "RuntimeError: odd machine" in findings[0].text
