"""State of the driver and the GPUs, through NVML: what can be broken although the GPUs are listed."""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zerocfg.probe.gpus import read_gpus

_MAX_LINKS = 18
# nvmlClocksEventReasons: hardware slowdown, thermal (software, hardware), power brake
_THROTTLED = {0x8: "hardware slowdown", 0x20: "too hot (software)", 0x40: "too hot (hardware)", 0x80: "power brake"}
_FABRIC = {1: "not started", 2: "in progress", 3: "completed"}
_PROHIBITED = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuState:
    """One GPU. None: the driver does not say."""

    index: int
    name: str
    lost: bool = False
    """Fallen off the bus, or not permitted here."""
    mig: bool = False
    compute_prohibited: bool = False
    persistence: bool | None = None
    ecc_uncorrected: int | None = None
    """Uncorrectable errors since the driver was loaded."""
    remap_pending: bool = False
    """A memory row was replaced; it takes effect at the next reset."""
    remap_failed: bool = False
    throttled: tuple[str, ...] = ()
    memory_used: int = 0
    memory_total: int = 0
    nvlinks: int = 0
    """Active ones."""
    nvlinks_down: int = 0
    fabric: str = ""
    """Of boards on an NVSwitch of the Hopper generation or later: not started, in progress, completed."""
    pcie_generation: int = 0
    pcie_generation_max: int = 0
    pcie_width: int = 0
    pcie_width_max: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    driver: str = ""
    """550.54.15; empty: no driver."""
    cuda: tuple[int, int] = (0, 0)
    """Of the driver's libcuda, which may be a forward-compatible one."""
    gpus: tuple[GpuState, ...] = ()
    """All that the driver lists, CUDA_VISIBLE_DEVICES or not."""
    reason: str = ""
    """Why there is nothing to read."""


def read_health(nvml: Any = None) -> Health:
    """Never raises."""
    if nvml is None:
        try:
            nvml = importlib.import_module("pynvml")
        except ImportError:
            return Health(reason="the Python package nvidia-ml-py is not installed")
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        mismatch = getattr(error, "value", None) == getattr(nvml, "NVML_ERROR_LIB_RM_VERSION_MISMATCH", 18)
        words = "the driver's library and kernel module have different versions: it was updated without a reboot"
        return Health(reason=words if mismatch else read_gpus(nvml, {}, Path("/nonexistent")).reason)
    try:
        ask = _Asker(nvml)
        version = int(ask.named("nvmlSystemGetCudaDriverVersion", default=0))
        return Health(
            driver=_text(ask.named("nvmlSystemGetDriverVersion", default="")),
            cuda=(version // 1000, version % 1000 // 10),
            gpus=tuple(_gpu(nvml, ask, index) for index in range(int(ask(nvml.nvmlDeviceGetCount, default=0)))),
        )
    finally:
        nvml.nvmlShutdown()


class _Asker:
    """Calls that old drivers and virtual machines refuse."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml

    def __call__(self, function: Callable[..., Any], *arguments: Any, default: Any) -> Any:
        try:
            return function(*arguments)
        except (self._nvml.NVMLError, AttributeError):
            return default

    def named(self, name: str, *arguments: Any, default: Any) -> Any:
        """A function that old releases of nvidia-ml-py lack."""
        function = getattr(self._nvml, name, None)
        return default if function is None else self(function, *arguments, default=default)


def _gpu(nvml: Any, ask: _Asker, index: int) -> GpuState:
    handle = ask(nvml.nvmlDeviceGetHandleByIndex, index, default=None)
    if handle is None:
        return GpuState(index=index, name="", lost=True)
    mig = ask.named("nvmlDeviceGetMigMode", handle, default=(0, 0))[0]
    memory = ask(nvml.nvmlDeviceGetMemoryInfo, handle, default=None)
    persistence = ask.named("nvmlDeviceGetPersistenceMode", handle, default=None)
    # uncorrected = 1, volatile = 0
    errors = ask.named("nvmlDeviceGetTotalEccErrors", handle, 1, 0, default=None)
    remapped = ask.named("nvmlDeviceGetRemappedRows", handle, default=(0, 0, 0, 0))
    reasons = int(ask.named("nvmlDeviceGetCurrentClocksThrottleReasons", handle, default=0))
    links = [ask.named("nvmlDeviceGetNvLinkState", handle, number, default=None) for number in range(_MAX_LINKS)]
    return GpuState(
        index=index,
        name=_text(ask(nvml.nvmlDeviceGetName, handle, default="")),
        mig=bool(mig),
        compute_prohibited=ask.named("nvmlDeviceGetComputeMode", handle, default=0) == _PROHIBITED,
        persistence=None if persistence is None else bool(persistence),
        ecc_uncorrected=None if errors is None else int(errors),
        remap_pending=bool(remapped[2]),
        remap_failed=bool(remapped[3]),
        throttled=tuple(text for bit, text in _THROTTLED.items() if reasons & bit),
        memory_used=int(getattr(memory, "used", 0) or 0),
        memory_total=int(getattr(memory, "total", 0) or 0),
        nvlinks=sum(1 for link in links if link == 1),
        nvlinks_down=sum(1 for link in links if link == 0),
        fabric=_fabric(nvml, ask, handle),
        pcie_generation=int(ask.named("nvmlDeviceGetCurrPcieLinkGeneration", handle, default=0)),
        pcie_generation_max=int(ask.named("nvmlDeviceGetMaxPcieLinkGeneration", handle, default=0)),
        pcie_width=int(ask.named("nvmlDeviceGetCurrPcieLinkWidth", handle, default=0)),
        pcie_width_max=int(ask.named("nvmlDeviceGetMaxPcieLinkWidth", handle, default=0)),
    )


def _fabric(nvml: Any, ask: _Asker, handle: Any) -> str:
    kind = getattr(nvml, "c_nvmlGpuFabricInfo_t", None)
    if kind is None:
        return ""
    info = kind()
    answered = ask.named("nvmlDeviceGetGpuFabricInfo", handle, ctypes.byref(info), default=None) is not None
    return _FABRIC.get(int(info.state), "") if answered else ""


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
