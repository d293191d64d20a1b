"""A machine's GPUs as pynvml shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any


@dataclass
class Gpu:
    uuid: str
    name: str = "NVIDIA A100-SXM4-80GB"
    memory: int = 80 * 2**30
    capability: tuple[int, int] = (8, 0)
    bus: str = "00000000:1B:00.0"
    links: Mapping[int, str] = field(default_factory=dict)
    """Number of an active NVLink -> "switch", or the bus id of the other end."""
    slices: Sequence[Gpu] | None = None
    """MIG slices; None: MIG is off."""
    lost: bool = False
    cpus: Sequence[int] = ()
    """Of its affinity; empty: NVML does not say."""


class FakeNvml:
    """Only what the probe calls. `p2p`: (uuid, uuid, capability) -> status; a pair that is not there is not supported."""

    class NVMLError(Exception):
        def __init__(self, value: int) -> None:
            super().__init__(f"error {value}")
            self.value = value

    NVML_ERROR_NOT_SUPPORTED = 3
    NVML_ERROR_DRIVER_NOT_LOADED = 9
    NVML_ERROR_LIBRARY_NOT_FOUND = 12
    NVML_ERROR_GPU_IS_LOST = 15
    NVML_NVLINK_DEVICE_TYPE_SWITCH = 2
    NVML_P2P_CAPS_INDEX_READ = (0,)  # as in the real module
    NVML_P2P_CAPS_INDEX_NVLINK = 2
    NVML_P2P_STATUS_OK = 0
    NVML_P2P_STATUS_UNKNOWN = 6

    def __init__(
        self,
        gpus: Sequence[Gpu] = (),
        *,
        init_error: int | None = None,
        p2p: Mapping[int, int] | None = None,
        old_driver: bool = False,
        ancestors: Mapping[frozenset[str], int] | None = None,
    ) -> None:
        self.gpus = list(gpus)
        self.init_error = init_error
        self.p2p = p2p
        self.old_driver = old_driver
        self.ancestors = ancestors
        """{uuid, uuid} -> NVML_TOPOLOGY_*."""
        self.open = 0

    def nvmlInit(self) -> None:
        if self.init_error is not None:
            raise self.NVMLError(self.init_error)
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Gpu:
        if self.gpus[index].lost:
            raise self.NVMLError(self.NVML_ERROR_GPU_IS_LOST)
        return self.gpus[index]

    def nvmlDeviceGetUUID(self, gpu: Gpu) -> str:
        return gpu.uuid

    def nvmlDeviceGetName(self, gpu: Gpu) -> bytes:
        return gpu.name.encode()  # old releases of nvidia-ml-py give bytes

    def nvmlDeviceGetMemoryInfo(self, gpu: Gpu) -> Any:
        return SimpleNamespace(total=gpu.memory)

    def nvmlDeviceGetCudaComputeCapability(self, gpu: Gpu) -> list[int]:
        if gpu.uuid.startswith("MIG"):
            raise self.NVMLError(self.NVML_ERROR_NOT_SUPPORTED)
        return list(gpu.capability)

    def nvmlDeviceGetPciInfo(self, gpu: Gpu) -> Any:
        return SimpleNamespace(busId=gpu.bus.encode())

    def nvmlDeviceGetMigMode(self, gpu: Gpu) -> list[int]:
        if self.old_driver:
            raise self.NVMLError(self.NVML_ERROR_NOT_SUPPORTED)
        mode = int(gpu.slices is not None)
        return [mode, mode]

    def nvmlDeviceGetMaxMigDeviceCount(self, gpu: Gpu) -> int:
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, gpu: Gpu, index: int) -> Gpu:
        slices = gpu.slices or ()
        if index >= len(slices):
            raise self.NVMLError(self.NVML_ERROR_NOT_SUPPORTED)
        return slices[index]

    def nvmlDeviceGetNvLinkState(self, gpu: Gpu, link: int) -> int:
        if not gpu.links:
            raise self.NVMLError(self.NVML_ERROR_NOT_SUPPORTED)
        return int(link in gpu.links)

    def nvmlDeviceGetNvLinkRemotePciInfo(self, gpu: Gpu, link: int) -> Any:
        end = gpu.links[link]
        return SimpleNamespace(busId=b"00000000:C4:00.0" if end == "switch" else end.encode())

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, gpu: Gpu, link: int) -> int:
        if self.old_driver:
            raise self.NVMLError(self.NVML_ERROR_NOT_SUPPORTED)
        return 2 if gpu.links[link] == "switch" else 0

    def nvmlDeviceGetP2PStatus(self, a: Gpu, b: Gpu, capability: int) -> int:
        assert isinstance(capability, int)
        if self.p2p is None:
            raise self.NVMLError(self.NVML_ERROR_NOT_SUPPORTED)
        return self.p2p[capability]

    def nvmlDeviceGetTopologyCommonAncestor(self, a: Gpu, b: Gpu) -> int:
        if self.ancestors is None:
            raise self.NVMLError(self.NVML_ERROR_NOT_SUPPORTED)
        return self.ancestors[frozenset({a.uuid, b.uuid})]

    def nvmlDeviceGetCpuAffinity(self, gpu: Gpu, words: int) -> list[int]:
        if not gpu.cpus:
            raise self.NVMLError(self.NVML_ERROR_NOT_SUPPORTED)
        masks = [0] * max(words, max(gpu.cpus) // 64 + 1)
        for cpu in gpu.cpus:
            masks[cpu // 64] |= 1 << cpu % 64
        return masks
