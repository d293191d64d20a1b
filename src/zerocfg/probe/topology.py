"""How the GPUs of this machine are linked, through NVML: `nvidia-smi topo -m` without starting a program."""

from __future__ import annotations

import importlib
import os
from collections import Counter
from pathlib import Path
from typing import Any

from zerocfg.probe.gpus import bus_id, read_gpus, read_numa_node
from zerocfg.topology.matrix import SELF, UNKNOWN, Device, Matrix

_MAX_LINKS = 18
# NVML_TOPOLOGY_*; the module's constants are missing from old releases of nvidia-ml-py
_LEVELS = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
_BITS = 64


def read_matrix(nvml: Any = None, root: Path = Path("/")) -> Matrix:
    """All GPUs that the driver lists, CUDA_VISIBLE_DEVICES or not, in NVML's order: GPU i is `facts.DetectedGpu.index` i. Never raises."""
    if nvml is None:
        try:
            nvml = importlib.import_module("pynvml")
        except ImportError:
            return Matrix(reason="the Python package nvidia-ml-py is not installed")
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return Matrix(reason=read_gpus(nvml, {}, root).reason)
    try:
        handles = [_handle(nvml, index) for index in range(nvml.nvmlDeviceGetCount())]
        if not handles:
            return Matrix(reason="the NVIDIA driver lists no GPU")
        gpus = tuple(_gpu(nvml, index, handle, root) for index, handle in enumerate(handles))
        ends = [_nvlink_ends(nvml, handle) for handle in handles]
        buses = [_bus(nvml, handle) for handle in handles]
        links = tuple(
            tuple(SELF if a == b else _link(nvml, handles[a], handles[b], ends[a], ends[b], buses[b]) for b in range(len(handles)))
            for a in range(len(handles))
        )
        return Matrix(gpus=gpus, links=links)
    except nvml.NVMLError as error:
        return Matrix(reason=f"NVML failed: {error}")
    finally:
        nvml.nvmlShutdown()


def _handle(nvml: Any, index: int) -> Any:
    """None for a GPU that has fallen off the bus: its place is kept, so that numbers stay right."""
    try:
        return nvml.nvmlDeviceGetHandleByIndex(index)
    except nvml.NVMLError:
        return None


def _gpu(nvml: Any, index: int, handle: Any, root: Path) -> Device:
    if handle is None:
        return Device(name=f"GPU{index}")
    return Device(name=f"GPU{index}", cpus=_cpus(nvml, handle), numa_node=read_numa_node(nvml, handle, root))


def _cpus(nvml: Any, handle: Any) -> tuple[int, ...]:
    words = -(-(os.cpu_count() or 1) // _BITS)
    try:
        masks = nvml.nvmlDeviceGetCpuAffinity(handle, words)
    except nvml.NVMLError:
        return ()
    return tuple(word * _BITS + bit for word, mask in enumerate(masks) for bit in range(_BITS) if mask >> bit & 1)


def _bus(nvml: Any, handle: Any) -> str:
    try:
        return bus_id(nvml.nvmlDeviceGetPciInfo(handle))
    except (nvml.NVMLError, ValueError, AttributeError):
        return ""


def _nvlink_ends(nvml: Any, handle: Any) -> Counter[str]:
    """Active NVLinks by where they end: "switch", or the bus id of a GPU."""
    ends: Counter[str] = Counter()
    if handle is None:
        return ends
    for number in range(_MAX_LINKS):
        try:
            if not nvml.nvmlDeviceGetNvLinkState(handle, number):
                continue
        except nvml.NVMLError:
            continue
        ends[_nvlink_end(nvml, handle, number)] += 1
    return ends


def _nvlink_end(nvml: Any, handle: Any, number: int) -> str:
    try:
        if nvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, number) == nvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
            return "switch"
    except nvml.NVMLError:
        pass  # drivers before R460 do not say
    try:
        return bus_id(nvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, number))
    except (nvml.NVMLError, ValueError):
        return "switch"  # a virtual machine hides the switches; other ends always have an address


def _link(nvml: Any, a: Any, b: Any, ends_a: Counter[str], ends_b: Counter[str], bus_b: str) -> str:
    direct = ends_a[bus_b] if bus_b else 0
    if bonded := direct or min(ends_a["switch"], ends_b["switch"]):
        return f"NV{bonded}"
    try:
        return _LEVELS.get(int(nvml.nvmlDeviceGetTopologyCommonAncestor(a, b)), UNKNOWN) if a and b else UNKNOWN
    except nvml.NVMLError:
        return UNKNOWN
