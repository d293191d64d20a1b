"""A machine made of dicts: an H200 node on which everything is well, until a test changes something."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from zerocfg.doctor.machine import NOT_FOUND, Ran, Space
from zerocfg.facts import Detected, DetectedGpu
from zerocfg.probe.health import GpuState, Health

GIB = 2**30
TORCH = "__version__ = '2.13.0+cu130'\ncuda: Optional[str] = '13.0'\nhip: Optional[str] = None\n"
TORCH_CPU = "__version__ = '2.13.0+cpu'\ncuda: Optional[str] = None\nhip: Optional[str] = None\n"
NVCC = "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 13.0, V13.0.88\n"


def gpu(index: int, name: str = "NVIDIA H200", capability: tuple[int, int] = (9, 0), node: int = 0) -> DetectedGpu:
    return DetectedGpu(index=index, uuid=f"GPU-{index}", name=name, memory_bytes=141 * GIB, compute_capability=capability, numa_node=node)


def state(index: int, **changes: object) -> GpuState:
    base: dict[str, object] = {
        "index": index,
        "name": "NVIDIA H200",
        "persistence": True,
        "ecc_uncorrected": 0,
        "memory_used": GIB // 2,
        "memory_total": 141 * GIB,
        "nvlinks": 18,
        "fabric": "completed",
        "pcie_generation": 5,
        "pcie_generation_max": 5,
        "pcie_width": 16,
        "pcie_width_max": 16,
    }
    return GpuState(**(base | changes))  # type: ignore[arg-type]


NO_GPUS = Detected(cpus=8, host_memory_bytes=16 * GIB, numa_nodes=1, reason="no NVIDIA driver is installed", host="box")


@dataclass
class FakeMachine:
    environ: Mapping[str, str] = field(default_factory=dict)
    python: tuple[int, int, int] = (3, 12, 3)
    packages: dict[str, str] = field(
        default_factory=lambda: {
            "torch": "2.13.0+cu130",
            "deepspeed": "0.19.8",
            "nvidia-nccl-cu13": "2.29.7",
            "nvidia-cudnn-cu13": "9.20.0.48",
        }
    )
    texts: dict[str, str] = field(default_factory=lambda: {"torch/version.py": TORCH})
    files: dict[str, str] = field(default_factory=lambda: {"/sys/module/nvidia_peermem": "", "/usr/local/cuda/bin/nvcc": ""})
    """Path -> text; folders are what lies above a file."""
    read_only: frozenset[str] = frozenset()
    opened: frozenset[str] = frozenset()
    programs: dict[str, str] = field(
        default_factory=lambda: {
            "ninja": "/usr/bin/ninja",
            "g++": "/usr/bin/g++",
            "nvcc": "/usr/local/cuda/bin/nvcc",
            "numactl": "/bin/numactl",
        }
    )
    answers: dict[str, Ran] = field(default_factory=lambda: {"/usr/local/cuda/bin/nvcc --version": Ran(0, NVCC)})
    """Command line -> what it prints; others are not found."""
    compiles: Callable[[tuple[str, ...], str], Ran] = lambda command, source: Ran(0)
    spaces: dict[str, Space] = field(
        default_factory=lambda: {
            "/dev/shm": Space(total=64 * GIB, free=60 * GIB, kind="tmpfs"),
            "outputs": Space(total=900 * GIB, free=800 * GIB, kind="xfs"),
            "/nvme": Space(total=7000 * GIB, free=6000 * GIB, kind="xfs"),
        }
    )
    speed: float = 2e9
    direct_speed: float = 3e9
    limits: dict[str, int] = field(default_factory=lambda: {"NOFILE": 65536, "MEMLOCK": -1})
    host: str = "node1"
    names_known: dict[str, tuple[str, ...]] = field(default_factory=lambda: {"node1": ("10.1.2.3",)})
    nets: tuple[str, ...] = ("lo", "ib0", "eth0")
    clock: bool | None = True
    machine: Detected = field(
        default_factory=lambda: Detected(
            cpus=64,
            host_memory_bytes=1000 * GIB,
            numa_nodes=2,
            gpus=tuple(gpu(i, node=i // 4) for i in range(8)),
            link="nvswitch",
            p2p=True,
            host="node1",
        )
    )
    state: Health = field(default_factory=lambda: Health(driver="580.95.05", cuda=(13, 0), gpus=tuple(state(i) for i in range(8))))

    def installed(self, package: str) -> str:
        return self.packages.get(package, "")

    def package_text(self, path: str) -> str:
        return self.texts.get(path, "")

    def read(self, path: str) -> str:
        return self.files.get(path, "")

    def names(self, folder: str) -> tuple[str, ...]:
        inside = {path.removeprefix(f"{folder}/").partition("/")[0] for path in self.files if path.startswith(f"{folder}/")}
        return tuple(sorted(inside))

    def exists(self, path: str) -> bool:
        return path in self.files or path in self.spaces or any(file.startswith(f"{path}/") for file in self.files)

    def is_open(self, path: str) -> bool:
        return path in self.opened

    def writable(self, path: str) -> bool:
        return path not in self.read_only

    def which(self, program: str) -> str:
        return self.programs.get(program, "")

    def run(self, *command: str, timeout: float = 2.0) -> Ran:
        return self.answers.get(" ".join(command), Ran(NOT_FOUND, "", f"{command[0]}: not found"))

    def compile(self, *command: str, suffix: str, source: str, timeout: float = 20.0) -> Ran:
        return self.compiles(command, source)

    def space(self, path: str) -> Space | None:
        return self.spaces.get(path)

    def write_speed(self, path: str, size: int, *, direct: bool = False) -> float:
        return self.direct_speed if direct else self.speed

    def limit(self, name: str) -> int:
        return self.limits[name]

    def hostname(self) -> str:
        return self.host

    def addresses(self, host: str) -> tuple[str, ...]:
        return self.names_known.get(host, ())

    def interfaces(self) -> tuple[str, ...]:
        return self.nets

    def clock_synchronized(self) -> bool | None:
        return self.clock

    def detected(self) -> Detected:
        return self.machine

    def health(self) -> Health:
        return self.state
