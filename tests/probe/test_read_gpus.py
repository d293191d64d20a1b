from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.probe.fake_nvml import FakeNvml, Gpu
from zerocfg.facts import DetectedGpu
from zerocfg.probe.gpus import Found, read_gpus

NOWHERE = Path("/nonexistent")


def bus(n: int) -> str:
    return f"00000000:{n + 16:02X}:00.0"


def board(n: int, **fields: object) -> Gpu:
    return Gpu(uuid=f"GPU-{n}000", bus=bus(n), **fields)  # type: ignore[arg-type]


def read(nvml: FakeNvml, mask: str | None = None, root: Path = NOWHERE) -> Found:
    found = read_gpus(nvml, {} if mask is None else {"CUDA_VISIBLE_DEVICES": mask}, root)
    assert nvml.open == 0, "nvmlInit without nvmlShutdown"
    return found


def test_a_switched_board() -> None:
    found = read(FakeNvml([board(n, links={0: "switch", 5: "switch"}) for n in range(4)]))
    assert [g.index for g in found.gpus] == [0, 1, 2, 3]
    assert found.gpus[1] == DetectedGpu(
        index=1, uuid="GPU-1000", name="NVIDIA A100-SXM4-80GB", memory_bytes=80 * 2**30, compute_capability=(8, 0), numa_node=-1
    )
    assert (found.link, found.p2p, found.reason) == ("nvswitch", True, "")


def test_the_mask_decides_order_and_number() -> None:
    nvml = FakeNvml([board(n, links={0: "switch"}) for n in range(4)])
    assert [g.index for g in read(nvml, "3,1").gpus] == [3, 1]
    assert [g.index for g in read(nvml, "GPU-2").gpus] == [2]
    hidden = read(nvml, "")
    assert (hidden.gpus, hidden.link, hidden.reason) == ((), "none", "CUDA_VISIBLE_DEVICES is empty: all 4 GPUs are hidden")


def test_gpus_linked_to_each_other() -> None:
    three = [board(n, links={4 * m: bus(m) for m in range(3) if m != n}) for n in range(3)]
    assert read(FakeNvml(three)).link == "nvlink"


@pytest.mark.parametrize("old_driver", [False, True])
def test_a_bridge_between_two_of_four_does_not_make_all_linked(old_driver: bool) -> None:
    four = [board(0, links={0: bus(1)}), board(1, links={0: bus(0)}), board(2), board(3)]
    nvml = FakeNvml(four, old_driver=old_driver)
    assert read(nvml).link == "pcie"
    assert read(nvml, "0,1").link == "nvlink"
    assert read(nvml, "1,2").link == "pcie"


def test_a_switch_must_reach_all() -> None:
    assert read(FakeNvml([board(0, links={0: "switch"}), board(1)])).link == "pcie"


def test_links_that_a_virtual_machine_hides_show_in_the_peer_status() -> None:
    assert read(FakeNvml([board(0), board(1)], p2p={0: 0, 2: 0})).link == "nvlink"
    assert read(FakeNvml([board(0), board(1)], p2p={0: 0, 2: 5})).link == "pcie"


@pytest.mark.parametrize(
    ("p2p", "expected"),
    [
        ({0: 0, 2: 5}, True),
        ({0: 5, 2: 5}, False),  # consumer boards
        ({0: 1, 2: 5}, False),  # the chipset
        ({0: 6, 2: 6}, True),  # unknown: left to NCCL
        (None, True),  # not readable: left to NCCL
    ],
)
def test_peer_access_over_pcie(p2p: dict[int, int] | None, expected: bool) -> None:
    found = read(FakeNvml([board(0), board(1)], p2p=p2p))
    assert (found.link, found.p2p) == ("pcie", expected)


def test_one_gpu_has_no_link() -> None:
    found = read(FakeNvml([board(0, links={0: "switch"})]))
    assert (found.link, found.p2p) == ("none", True)


def test_a_lost_gpu_is_left_out() -> None:
    found = read(FakeNvml([board(0), board(1, lost=True), board(2)]), "0,1")
    assert [g.uuid for g in found.gpus] == ["GPU-0000", "GPU-2000"]


def test_a_mig_slice() -> None:
    part = Gpu(uuid="MIG-7777", name="NVIDIA A100-SXM4-80GB MIG 3g.40gb", memory=40 * 2**30)
    found = read(FakeNvml([board(0, slices=[part])]), "MIG-7777")
    assert found.gpus == (
        DetectedGpu(index=0, uuid="MIG-7777", name="NVIDIA A100-SXM4-80GB MIG 3g.40gb", memory_bytes=40 * 2**30, compute_capability=(8, 0)),
    )


def test_the_numa_node_comes_from_the_pci_address(tmp_path: Path) -> None:
    for n, node in ((0, "1"), (1, "-1")):
        folder = tmp_path / f"sys/bus/pci/devices/0000:{n + 16:02x}:00.0"
        folder.mkdir(parents=True)
        (folder / "numa_node").write_text(f"{node}\n")
    found = read(FakeNvml([board(0), board(1), board(2)]), root=tmp_path)
    assert [g.numa_node for g in found.gpus] == [1, -1, -1]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (12, "no NVIDIA driver is installed (libnvidia-ml.so.1 was not found)"),
        (9, "the NVIDIA driver is not loaded"),
        (4, "NVML failed: error 4"),
    ],
)
def test_no_driver(error: int, reason: str) -> None:
    assert read(FakeNvml(init_error=error)) == Found(reason=reason)


def test_a_driver_without_gpus() -> None:
    assert read(FakeNvml()) == Found(reason="the NVIDIA driver lists no GPU")


def test_a_failure_in_the_middle_is_told_and_nvml_is_closed() -> None:
    nvml = FakeNvml([board(0)])

    def fails(gpu: Gpu) -> str:
        raise nvml.NVMLError(4)

    nvml.nvmlDeviceGetName = fails  # type: ignore[method-assign,assignment]
    assert read(nvml) == Found(reason="NVML failed: error 4")


def test_without_the_python_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert read_gpus(None, {}, NOWHERE) == Found(reason="the Python package nvidia-ml-py is not installed")


def test_the_real_module_has_every_name_that_the_fake_has() -> None:
    import pynvml

    names = [n for n in vars(FakeNvml) if n.startswith(("nvml", "NVML"))]
    assert [n for n in names if not hasattr(pynvml, n)] == []
    constants = [n for n in names if n.startswith("NVML_")]
    assert {n: getattr(FakeNvml, n) for n in constants} == {n: getattr(pynvml, n) for n in constants}
