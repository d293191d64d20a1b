"""NVML's view of the links, as nvidia-smi topo -m has it."""

from __future__ import annotations

import sys
from itertools import combinations
from pathlib import Path

import pytest

from tests.probe.fake_nvml import FakeNvml, Gpu
from zerocfg.probe.topology import read_matrix
from zerocfg.topology.matrix import Matrix

NOWHERE = Path("/nonexistent")


def bus(n: int) -> str:
    return f"00000000:{n + 16:02X}:00.0"


def board(n: int, **fields: object) -> Gpu:
    return Gpu(uuid=f"GPU-{n}000", bus=bus(n), **fields)  # type: ignore[arg-type]


def read(nvml: FakeNvml, root: Path = NOWHERE) -> Matrix:
    found = read_matrix(nvml, root)
    assert nvml.open == 0, "nvmlInit without nvmlShutdown"
    return found


def test_a_switched_board(tmp_path: Path) -> None:
    nvml = FakeNvml([board(n, links=dict.fromkeys(range(18), "switch"), cpus=range(n * 70, n * 70 + 3)) for n in range(2)])
    for n in range(2):
        folder = tmp_path / "sys/bus/pci/devices" / f"0000:{n + 16:02x}:00.0"
        folder.mkdir(parents=True)
        (folder / "numa_node").write_text(f"{n}\n")
    found = read(nvml, tmp_path)
    assert found.links == (("X", "NV18"), ("NV18", "X"))
    assert [(gpu.name, gpu.cpus, gpu.numa_node) for gpu in found.gpus] == [("GPU0", (0, 1, 2), 0), ("GPU1", (70, 71, 72), 1)]


def test_bridges_and_what_lies_between_other_pairs() -> None:
    four = [board(n, links={0: bus(n ^ 1), 1: bus(n ^ 1)}) for n in range(4)]
    between = {frozenset({f"GPU-{a}000", f"GPU-{b}000"}): 50 if a // 2 != b // 2 else 10 for a, b in combinations(range(4), 2)}
    found = read(FakeNvml(four, ancestors=between))
    assert found.links[0] == ("X", "NV2", "SYS", "SYS")
    assert found.islands == ((0, 1), (2, 3))


@pytest.mark.parametrize(("level", "link"), [(10, "PIX"), (20, "PXB"), (30, "PHB"), (40, "NODE"), (50, "SYS"), (99, "?")])
def test_levels(level: int, link: str) -> None:
    found = read(FakeNvml([board(0), board(1)], ancestors={frozenset({"GPU-0000", "GPU-1000"}): level}))
    assert found.links == (("X", link), (link, "X"))


def test_what_nvml_does_not_say() -> None:
    found = read(FakeNvml([board(0), board(1)], old_driver=True))
    assert found.links == (("X", "?"), ("?", "X"))
    assert found.gpus[0].cpus == ()


def test_switches_that_a_virtual_machine_hides() -> None:
    two = [board(n, links={0: "no address", 1: "no address"}) for n in range(2)]
    assert read(FakeNvml(two)).links == (("X", "NV2"), ("NV2", "X"))


def test_a_lost_gpu_keeps_its_place() -> None:
    found = read(FakeNvml([board(0, lost=True), board(1, links={0: bus(2)}), board(2, links={0: bus(1)})]))
    assert found.links[1] == ("?", "X", "NV1")
    assert found.islands == ((0,), (1, 2))


@pytest.mark.parametrize(("error", "reason"), [(12, "no NVIDIA driver is installed"), (9, "is not loaded")])
def test_no_driver(error: int, reason: str) -> None:
    found = read(FakeNvml(init_error=error))
    assert found.gpus == ()
    assert reason in found.reason


def test_no_gpu_and_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(FakeNvml()).reason == "the NVIDIA driver lists no GPU"
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert "nvidia-ml-py" in read_matrix().reason
