"""GPUs through NVML, which needs neither torch nor a CUDA context."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from zerocfg.facts import DetectedGpu
from zerocfg.probe.visible import NAME, Device, choose

_MAX_LINKS = 18


@dataclass(frozen=True, slots=True)
class Found:
    gpus: tuple[DetectedGpu, ...] = ()
    link: str = "none"
    p2p: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Board:
    index: int
    handle: Any
    device: Device
    slices: tuple[Any, ...]


def read_gpus(nvml: Any, environ: Mapping[str, str], root: Path) -> Found:
    """The GPUs that a process with this environment can use, in NVML's (PCI bus) order.

    CUDA orders boards of different models by speed unless CUDA_DEVICE_ORDER=PCI_BUS_ID; with equal boards both orders agree.
    """
    if nvml is None:
        try:
            nvml = importlib.import_module("pynvml")
        except ImportError:
            return Found(reason="the Python package nvidia-ml-py is not installed")
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return Found(reason=_why(nvml, error))
    try:
        return _read(nvml, environ.get(NAME), root)
    except nvml.NVMLError as error:
        return Found(reason=f"NVML failed: {error}")
    finally:
        nvml.nvmlShutdown()


def _why(nvml: Any, error: Exception) -> str:
    value = getattr(error, "value", None)
    if value == nvml.NVML_ERROR_LIBRARY_NOT_FOUND:
        return "no NVIDIA driver is installed (libnvidia-ml.so.1 was not found)"
    if value == nvml.NVML_ERROR_DRIVER_NOT_LOADED:
        return "the NVIDIA driver is not loaded"
    return f"NVML failed: {error}"


def _read(nvml: Any, mask: str | None, root: Path) -> Found:
    boards = list(_boards(nvml))
    if not boards:
        return Found(reason="the NVIDIA driver lists no GPU")
    choices, reason = choose(mask, [b.device for b in boards])
    gpus = []
    for index, part in choices:
        board = boards[index]
        handle = board.handle if part is None else board.slices[part]
        gpus.append(
            DetectedGpu(
                index=board.index,
                uuid=board.device.uuid if part is None else board.device.slices[part],
                name=_text(nvml.nvmlDeviceGetName(handle)),
                memory_bytes=int(nvml.nvmlDeviceGetMemoryInfo(handle).total),
                compute_capability=_capability(nvml, board.handle),
                numa_node=read_numa_node(nvml, board.handle, root),
            )
        )
    handles = [boards[index].handle for index, _ in choices]
    link = _link(nvml, handles)
    return Found(tuple(gpus), link, _p2p(nvml, handles, link), reason)


def _boards(nvml: Any) -> list[_Board]:
    boards = []
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
        except nvml.NVMLError:
            continue  # fallen off the bus, or not permitted in this container: CUDA does not list it either
        mig, slices = _slices(nvml, handle)
        uuids = tuple(_text(nvml.nvmlDeviceGetUUID(s)) for s in slices)
        boards.append(_Board(index, handle, Device(_text(nvml.nvmlDeviceGetUUID(handle)), uuids, mig), slices))
    return boards


def _slices(nvml: Any, handle: Any) -> tuple[bool, tuple[Any, ...]]:
    try:
        current, _pending = nvml.nvmlDeviceGetMigMode(handle)
    except nvml.NVMLError:
        return False, ()
    if not current:
        return False, ()
    slices = []
    for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            slices.append(nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index))
        except nvml.NVMLError:
            continue  # no slice at this place
    return True, tuple(slices)


def _capability(nvml: Any, handle: Any) -> tuple[int, int]:
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    return int(major), int(minor)


def bus_id(info: Any) -> str:
    """NVML's 00000000:1B:00.0 -> /sys's 0000:1b:00.0."""
    domain, _, rest = _text(info.busId).rstrip("\0").lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"


def read_numa_node(nvml: Any, handle: Any, root: Path) -> int:
    """-1 where the machine does not say."""
    try:
        address = bus_id(nvml.nvmlDeviceGetPciInfo(handle))
        return int((root / "sys/bus/pci/devices" / address / "numa_node").read_text())
    except (nvml.NVMLError, OSError, ValueError):
        return -1


def _link(nvml: Any, handles: list[Any]) -> str:
    """How the GPUs reach each other; the weakest pair decides. none for fewer than two."""
    if len(handles) < 2:
        return "none"
    links = [_links(nvml, handle) for handle in handles]
    if all("switch" in seen for seen in links):
        return "nvswitch"
    own = [_own_bus_id(nvml, handle) for handle in handles]
    direct = all(own[b] in links[a] or own[a] in links[b] for a, b in combinations(range(len(handles)), 2))
    if direct or all(_status(nvml, a, b, nvml.NVML_P2P_CAPS_INDEX_NVLINK) is True for a, b in combinations(handles, 2)):
        return "nvlink"
    return "pcie"


def _own_bus_id(nvml: Any, handle: Any) -> str:
    try:
        return bus_id(nvml.nvmlDeviceGetPciInfo(handle))
    except (nvml.NVMLError, ValueError):
        return "unknown"


def _links(nvml: Any, handle: Any) -> set[str]:
    """Where the active NVLinks of a GPU end: "switch", or the bus id of the other GPU."""
    ends: set[str] = set()
    for number in range(_MAX_LINKS):
        try:
            if not nvml.nvmlDeviceGetNvLinkState(handle, number):
                continue
            remote = nvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, number)
        except nvml.NVMLError:
            continue
        try:
            switch = nvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, number) == nvml.NVML_NVLINK_DEVICE_TYPE_SWITCH
        except nvml.NVMLError:
            switch = False  # drivers before R460 do not say
        try:
            ends.add("switch" if switch else bus_id(remote))
        except ValueError:
            continue
    return ends


def _p2p(nvml: Any, handles: list[Any], link: str) -> bool:
    """False only where the driver says so: a wrong False would route NCCL through host memory."""
    if link in ("nvlink", "nvswitch"):
        return True
    return not any(_status(nvml, a, b, nvml.NVML_P2P_CAPS_INDEX_READ) is False for a, b in combinations(handles, 2))


def _status(nvml: Any, a: Any, b: Any, capability: Any) -> bool | None:
    """Peer status of a pair; None where the driver does not say."""
    if isinstance(capability, tuple):  # nvidia-ml-py 12 and 13 define NVML_P2P_CAPS_INDEX_READ with a trailing comma
        (capability,) = capability
    try:
        status = nvml.nvmlDeviceGetP2PStatus(a, b, capability)
    except nvml.NVMLError:
        return None
    return None if status == nvml.NVML_P2P_STATUS_UNKNOWN else bool(status == nvml.NVML_P2P_STATUS_OK)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
