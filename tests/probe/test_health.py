"""The state of GPUs as NVML tells it, and an NVML that refuses."""

from __future__ import annotations

import sys
from ctypes import Structure, c_uint
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from tests.probe.fake_nvml import FakeNvml, Gpu
from zerocfg.probe.health import GpuState, Health, read_health


class Info(Structure):
    _fields_: ClassVar[Any] = [("state", c_uint)]


class Talkative(FakeNvml):
    """A recent driver."""

    NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18
    c_nvmlGpuFabricInfo_t = Info

    def nvmlSystemGetDriverVersion(self) -> bytes:
        return b"580.95.05"

    def nvmlSystemGetCudaDriverVersion(self) -> int:
        return 13010

    def nvmlDeviceGetMemoryInfo(self, gpu: Gpu) -> Any:
        return SimpleNamespace(total=gpu.memory, used=gpu.memory // 4)

    def nvmlDeviceGetPersistenceMode(self, gpu: Gpu) -> int:
        return 0

    def nvmlDeviceGetTotalEccErrors(self, gpu: Gpu, kind: int, counter: int) -> int:
        assert (kind, counter) == (1, 0)
        return 2

    def nvmlDeviceGetRemappedRows(self, gpu: Gpu) -> tuple[int, int, int, int]:
        return (0, 1, 1, 0)

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, gpu: Gpu) -> int:
        return 0x1 | 0x4 | 0x40

    def nvmlDeviceGetComputeMode(self, gpu: Gpu) -> int:
        return 2

    def nvmlDeviceGetGpuFabricInfo(self, gpu: Gpu, info: Any) -> int:
        info._obj.state = 3
        return 0

    def nvmlDeviceGetCurrPcieLinkGeneration(self, gpu: Gpu) -> int:
        return 4

    def nvmlDeviceGetMaxPcieLinkGeneration(self, gpu: Gpu) -> int:
        return 5

    def nvmlDeviceGetCurrPcieLinkWidth(self, gpu: Gpu) -> int:
        return 8

    def nvmlDeviceGetMaxPcieLinkWidth(self, gpu: Gpu) -> int:
        return 16


def test_all_that_a_driver_says() -> None:
    nvml = Talkative([Gpu("GPU-0", memory=1000, links={0: "switch", 1: "switch"})])
    assert read_health(nvml) == Health(
        driver="580.95.05",
        cuda=(13, 1),
        gpus=(
            GpuState(
                index=0,
                name="NVIDIA A100-SXM4-80GB",
                compute_prohibited=True,
                persistence=False,
                ecc_uncorrected=2,
                remap_pending=True,
                throttled=("too hot (hardware)",),
                memory_used=250,
                memory_total=1000,
                nvlinks=2,
                nvlinks_down=16,
                fabric="completed",
                pcie_generation=4,
                pcie_generation_max=5,
                pcie_width=8,
                pcie_width_max=16,
            ),
        ),
    )
    assert nvml.open == 0


def test_a_driver_that_says_nothing() -> None:
    """WSL, virtual machines, old releases: most calls are refused or not there."""
    nvml = FakeNvml([Gpu("GPU-0", memory=1000, slices=[Gpu("MIG-0")]), Gpu("GPU-1", lost=True)])
    assert read_health(nvml) == Health(
        gpus=(GpuState(index=0, name="NVIDIA A100-SXM4-80GB", mig=True, memory_total=1000), GpuState(index=1, name="", lost=True))
    )
    assert nvml.open == 0


@pytest.mark.parametrize(("error", "says"), [(12, "no NVIDIA driver"), (9, "not loaded"), (18, "different versions"), (99, "error 99")])
def test_no_driver(error: int, says: str) -> None:
    found = read_health(Talkative(init_error=error))
    assert found.gpus == ()
    assert says in found.reason


def test_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert "nvidia-ml-py" in read_health().reason
