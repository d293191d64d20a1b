"""Variables that others have left in the environment."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from zerocfg.doctor.finding import Finding, bad, ok, warn
from zerocfg.doctor.machine import Machine
from zerocfg.doctor.needs import Needs

_OFF = ("", "0")
Trap = tuple[str, Callable[[str, Needs, Machine], bool], str]


def _nvlink(machine: Machine) -> bool:
    return machine.detected().link in ("nvlink", "nvswitch")


def _rdma(machine: Machine) -> bool:
    return bool(machine.names("/sys/class/infiniband"))


TRAPS: tuple[Trap, ...] = (
    ("NCCL_P2P_DISABLE", lambda v, n, m: v not in _OFF and _nvlink(m), "NCCL goes around NVLink"),
    ("NCCL_SHM_DISABLE", lambda v, n, m: v not in _OFF, "NCCL goes over the network inside a node"),
    ("NCCL_IB_DISABLE", lambda v, n, m: v not in _OFF and n.nodes > 1 and _rdma(m), "NCCL goes over TCP between nodes that have RDMA"),
    ("NCCL_NVLS_ENABLE", lambda v, n, m: v == "0" and m.detected().link == "nvswitch", "NCCL reduces without the NVSwitch"),
    ("NCCL_ALGO", lambda v, n, m: True, "NCCL cannot choose its algorithm by size"),
    ("NCCL_PROTO", lambda v, n, m: True, "NCCL cannot choose its protocol by size"),
    ("NCCL_MAX_NCHANNELS", lambda v, n, m: v.isdigit() and int(v) < 8, "NCCL uses few channels: collectives are slow"),
    ("NCCL_DEBUG", lambda v, n, m: v.upper() == "TRACE", "NCCL writes a line for each call"),
    ("CUDA_LAUNCH_BLOCKING", lambda v, n, m: v not in _OFF, "each kernel is waited for"),
    ("TORCH_DISTRIBUTED_DEBUG", lambda v, n, m: v.upper() == "DETAIL", "each collective is checked by another one"),
    ("PYTORCH_NO_CUDA_MEMORY_CACHING", lambda v, n, m: v not in _OFF, "each tensor is a cudaMalloc"),
    ("DS_SKIP_CUDA_CHECK", lambda v, n, m: v not in _OFF, "ops of another CUDA major version may crash"),
    ("NVIDIA_TF32_OVERRIDE", lambda v, n, m: v == "0" and n.plan is not None and n.plan.precision.tf32, "TF32 is off, the run asks for it"),
)
"""(name, whether its value is a trap, what it does)."""


def variables(machine: Machine, needs: Needs) -> Iterator[Finding]:
    """ZC870."""
    environ, found = machine.environ, 0
    for name, is_trap, effect in TRAPS:
        value = environ.get(name)
        if value and name not in needs.environment and needs.gpus_matter and is_trap(value, needs, machine):
            found += 1
            yield warn("ZC870", f"{name}={value} is set: {effect}", f"unset {name}")
    threads = environ.get("OMP_NUM_THREADS", "")
    cores = needs.plan.topology.cpus_per_rank if needs.plan is not None and needs.offloads else 0
    if threads.isdigit() and int(threads) < cores // 2:
        found += 1
        text = f"OMP_NUM_THREADS={threads} is exported and kept: the optimizer's step on the CPU has {cores} cores a rank"
        yield warn("ZC870", text, "unset OMP_NUM_THREADS")
    ranks = [name for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "TORCHELASTIC_RUN_ID") if name in environ]
    if ranks and not needs.start:
        found += 1
        yield bad(needs.plan is not None, "ZC870", f"{', '.join(ranks)} of another launcher are set", f"unset {' '.join(ranks)}")
    stubs = [folder for folder in environ.get("LD_LIBRARY_PATH", "").split(":") if folder.rstrip("/").endswith("/stubs")]
    if stubs and needs.gpus_matter:
        found += 1
        text = f"LD_LIBRARY_PATH has {stubs[0]}: the empty libcuda.so there may be loaded in place of the driver's"
        yield bad(needs.cuda, "ZC870", text, f"take {stubs[0]} out of LD_LIBRARY_PATH")
    if not found:
        yield ok("nothing that slows a run down")
