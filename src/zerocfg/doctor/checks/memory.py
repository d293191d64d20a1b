"""Main memory, /dev/shm, limits of the process, NUMA."""

from __future__ import annotations

from collections.abc import Iterator

from zerocfg.doctor.finding import Finding, bad, ok, warn
from zerocfg.doctor.machine import Machine
from zerocfg.doctor.needs import Needs
from zerocfg.units import counted, human_bytes

GIB, MIB = 2**30, 2**20
_SHM_NEEDED, _SHM_GOOD = 512 * MIB, GIB
"""NCCL's documentation asks for 1 GiB; data loaders take a few hundred MiB more."""
_FILES_GOOD = 4096


def shared_memory(machine: Machine, needs: Needs) -> Iterator[Finding]:
    """ZC840."""
    space = machine.space("/dev/shm")
    if space is None or not machine.exists("/dev/shm"):
        yield warn("ZC840", "there is no /dev/shm", "mount a tmpfs there")
        return
    plan = needs.plan
    uses = needs.gpus > 1 or (plan is not None and plan.train.num_workers > 0)
    text = f"/dev/shm has {human_bytes(space.total)}"
    fix = "sudo mount -o remount,size=16G /dev/shm; in docker --ipc=host or --shm-size=16g, as container=docker does"
    if space.total < _SHM_NEEDED and not (plan is not None and not uses):
        yield bad(uses, "ZC840", f"{text}: NCCL and data loaders of several ranks need {human_bytes(_SHM_GOOD)} or more", fix)
    elif space.total < _SHM_GOOD and (uses or plan is None):
        yield warn("ZC840", f"{text}: NCCL and data loaders may need more", fix)
    elif space.free < 64 * MIB and uses:
        yield warn("ZC840", f"{text}, and {human_bytes(space.free)} of it free", "ls -l /dev/shm: ended programs leave files there")
    else:
        yield ok(text)


def limits(machine: Machine, needs: Needs) -> Iterator[Finding]:
    """ZC841."""
    files, locked = machine.limit("NOFILE"), machine.limit("MEMLOCK")
    low = False
    if 0 <= files < _FILES_GOOD:
        low = True
        yield warn("ZC841", f"{files} open files at most: ranks and data loaders may need more", "ulimit -n 65536 before the start")
    pins = needs.nvme or (needs.nodes > 1 and needs.plan is not None and needs.plan.hardware.network in ("infiniband", "roce", "efa"))
    fabric = needs.plan is None and bool(machine.names("/sys/class/infiniband"))
    if 0 <= locked < GIB and (pins or fabric):
        low = True
        what = "offload to NVMe" if needs.nvme else "RDMA"
        fix = "ulimit -l unlimited (limits.conf, systemd's LimitMEMLOCK for slurmd; docker run --ulimit memlock=-1)"
        yield bad(pins, "ZC841", f"{human_bytes(locked)} of locked memory at most: {what} locks buffers in memory", fix)
    if not low:
        shown = "unlimited" if locked < 0 else human_bytes(locked)
        yield ok(f"{'unlimited' if files < 0 else files} open files, {shown} locked memory")


def host(machine: Machine, needs: Needs) -> Iterator[Finding]:
    """ZC843."""
    found, plan = machine.detected(), needs.plan
    text = f"{counted(found.cpus, 'core')}, {human_bytes(found.host_memory_bytes)}, {counted(found.numa_nodes, 'NUMA node')}"
    if plan is None or plan.detected or needs.slurm:
        yield ok(text)
        return
    hardware = plan.hardware
    less = False
    if found.cpus < hardware.cpus_per_node:
        less = True
        fix = f"hardware.cpus_per_node={found.cpus}, so that OMP_NUM_THREADS fits"
        yield warn("ZC843", f"{counted(found.cpus, 'core')} here, hardware.cpus_per_node={hardware.cpus_per_node}", fix)
    # what the firmware keeps is no surprise
    if found.host_memory_bytes < 0.9 * hardware.host_memory_bytes:
        less = True
        fix = f"hardware.host_memory_bytes={found.host_memory_bytes}"
        text = f"{human_bytes(found.host_memory_bytes)} here, hardware.host_memory_bytes={hardware.host_memory_bytes}"
        yield bad(needs.offloads, "ZC843", text, fix)
    if not less:
        yield ok(text)


def numa(machine: Machine, needs: Needs) -> Iterator[Finding]:
    """ZC842: torchrun --numa-binding calls numactl (torch/numa/binding.py), and fails without."""
    plan = needs.plan
    if plan is None or plan.torchrun.numa_binding == "none":
        return
    binding = plan.torchrun.numa_binding
    if needs.inside and not machine.which("numactl"):
        text = f"torchrun --numa-binding={binding} needs the program numactl, which is not here"
        yield bad(True, "ZC842", text, "apt-get install numactl, or torchrun.numa_binding=none")
        return
    unknown = [gpu.index for gpu in machine.detected().gpus if gpu.numa_node < 0]
    if unknown and machine.detected().numa_nodes > 1:
        text = f"GPUs {', '.join(map(str, unknown))} do not say their NUMA node: torchrun takes node 0 for them"
        yield warn("ZC842", text, "torchrun.numa_binding=none")
    else:
        yield ok(f"torchrun --numa-binding={binding}")
