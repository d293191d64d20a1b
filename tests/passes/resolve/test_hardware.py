from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest

from zerocfg.facts import Detected, DetectedGpu
from zerocfg.passes.resolve.hardware import resolve_hardware
from zerocfg.schema.hardware import HardwareConfig
from zerocfg.schema.types import Accelerator, LinkKind

GIB = 2**30


def gpu(index: int, memory: int = 143_771 * 2**20, capability: tuple[int, int] = (9, 0)) -> DetectedGpu:
    return DetectedGpu(index=index, uuid=f"GPU-{index}", name="NVIDIA H200", memory_bytes=memory, compute_capability=capability)


TWO_H200 = Detected(
    cpus=32, host_memory_bytes=256 * GIB, numa_nodes=2, gpus=(gpu(0), gpu(1, memory=140_000 * 2**20)), link="nvswitch", p2p=True
)
NO_GPU = Detected(cpus=6, host_memory_bytes=10 * GIB, numa_nodes=0, reason="NVML is not installed")
NOTHING_KNOWN: dict[str, Any] = {
    "name": "",
    "gpu": "",
    "num_nodes": 1,
    "compute_capability": (0, 0),
    "fp32_tflops": 0.0,
    "tf32_tflops": 0.0,
    "fp16_tflops": 0.0,
    "bf16_tflops": 0.0,
    "memory_bandwidth_gbps": 0.0,
    "link": "none",
    "link_gbps": 0.0,
    "p2p": True,
    "pcie_gbps": 0.0,
    "network": "none",
    "network_gbps": 0.0,
    "network_interface": "",
    "cpus_per_node": 0,
    "host_memory_bytes": 0,
    "numa_nodes": 1,
    "memory_target": 0.8,
}
FOUND_H200: dict[str, Any] = {
    "accelerator": "cuda",
    "gpu": "NVIDIA H200",
    "memory_bytes": 140_000 * 2**20,
    "compute_capability": (9, 0),
    "fp32_tflops": 67,
    "tf32_tflops": 494.5,
    "fp16_tflops": 989,
    "bf16_tflops": 989,
    "memory_bandwidth_gbps": 4800,
    "pcie_gbps": 63,
    "link": "nvswitch",
    "host_memory_bytes": 256 * GIB,
    "numa_nodes": 2,
}
FOUND_CPU = {"accelerator": "cpu", "gpus_per_node": 2, "memory_bytes": 5 * GIB, "cpus_per_node": 6, "host_memory_bytes": 10 * GIB}


@pytest.mark.parametrize(
    ("config", "detected", "expected", "sources"),
    [
        (
            {"accelerator": Accelerator.cuda, "gpus_per_node": 4, "memory_bytes": 80e9, "compute_capability": "8.0", "link": LinkKind.pcie},
            None,
            {"accelerator": "cuda", "gpus_per_node": 4, "memory_bytes": 80_000_000_000, "compute_capability": (8, 0), "link": "pcie"},
            {"gpus_per_node": "", "numa_nodes": "not given, not detected"},
        ),
        # with detect on, what is written wins; of different boards the lesser counts
        (
            {"detect": True, "cpus_per_node": 8},
            TWO_H200,
            {**FOUND_H200, "gpus_per_node": 2, "cpus_per_node": 8},
            {"gpus_per_node": "read off this machine", "bf16_tflops": "data sheet of NVIDIA H200", "cpus_per_node": ""},
        ),
        # a run on some of a machine's GPUs leaves the others their cores
        (
            {"detect": True, "accelerator": Accelerator.cuda, "gpus_per_node": 1},
            TWO_H200,
            {**FOUND_H200, "gpus_per_node": 1, "cpus_per_node": 16},
            {"cpus_per_node": "1 of the 2 GPUs of this machine: that share of its 32 cores"},
        ),
        (
            {"accelerator": Accelerator.cuda, "gpus_per_node": 3, "memory_bytes": 1, "compute_capability": "8.0", "cpus_per_gpu": 12},
            None,
            {"accelerator": "cuda", "gpus_per_node": 3, "memory_bytes": 1, "compute_capability": (8, 0), "cpus_per_node": 36},
            {"cpus_per_node": "cpus_per_gpu x gpus_per_node = 12 x 3"},
        ),
        (
            {"detect": True},
            NO_GPU,
            FOUND_CPU,
            {"accelerator": "no GPU here: NVML is not installed", "cpus_per_node": "read off this machine"},
        ),
        (
            {"detect": True, "accelerator": Accelerator.cpu, "gpus_per_node": 5},
            TWO_H200,
            {
                "accelerator": "cpu",
                "gpus_per_node": 5,
                "memory_bytes": 256 * GIB // 5,
                "cpus_per_node": 32,
                "host_memory_bytes": 256 * GIB,
                "numa_nodes": 2,
            },
            {"accelerator": "", "gpus_per_node": "", "memory_bytes": "read off this machine"},
        ),
        # what a probe found does not count where it was not asked for
        (
            {"accelerator": Accelerator.cpu, "gpus_per_node": 1, "memory_bytes": 7},
            TWO_H200,
            {"accelerator": "cpu", "gpus_per_node": 1, "memory_bytes": 7},
            {"cpus_per_node": "not given, not detected"},
        ),
    ],
)
def test_facts(config: dict[str, Any], detected: Detected | None, expected: dict[str, Any], sources: dict[str, str]) -> None:
    resolved = resolve_hardware(HardwareConfig(**config), detected)
    assert list(resolved.problems) == []
    facts = asdict(resolved.value)
    if "link_gbps" not in expected:
        facts["link_gbps"] = 0.0
    assert facts == {**NOTHING_KNOWN, **expected}
    assert {name: resolved.reasons[name].text for name in sources} == sources
    assert set(resolved.reasons) == set(facts)


@pytest.mark.parametrize(
    ("config", "detected", "report"),
    [
        (
            {"accelerator": Accelerator.cuda},
            None,
            """\
error[ZC120] hardware.gpus_per_node is not known: the hardware option does not say it and detect is off
  try: hardware.gpus_per_node=VALUE, or hardware=auto
error[ZC120] hardware.memory_bytes is not known: the hardware option does not say it and detect is off
  try: hardware.memory_bytes=VALUE, or hardware=auto
error[ZC120] hardware.compute_capability is not known: the hardware option does not say it and detect is off
  try: hardware.compute_capability=VALUE, or hardware=auto""",
        ),
        # GPUs wanted, none found: nothing of the CPU is taken for a GPU's
        (
            {"detect": True, "accelerator": Accelerator.cuda},
            NO_GPU,
            """\
error[ZC120] hardware.gpus_per_node is not known: NVML is not installed
  try: hardware.gpus_per_node=VALUE, or hardware=auto
error[ZC120] hardware.memory_bytes is not known: NVML is not installed
  try: hardware.memory_bytes=VALUE, or hardware=auto
error[ZC120] hardware.compute_capability is not known: NVML is not installed
  try: hardware.compute_capability=VALUE, or hardware=auto""",
        ),
        (
            {"detect": True, "gpus_per_node": 1, "memory_bytes": 1},
            None,
            """\
error[ZC120] hardware.accelerator is not known: this machine could not be read
  try: hardware.accelerator=VALUE, or hardware=auto""",
        ),
        (
            {"accelerator": Accelerator.cuda, "gpus_per_node": 0, "num_nodes": -1, "memory_bytes": 1, "compute_capability": "8.x"},
            None,
            """\
error[ZC121] hardware.compute_capability='8.x' is not MAJOR.MINOR
  try: hardware.compute_capability='8.0'
error[ZC122] hardware.num_nodes=-1 is not 1 to 32768
  try: hardware.num_nodes=1
error[ZC122] hardware.gpus_per_node=0 is not 1 to 256
  try: hardware.gpus_per_node=1""",
        ),
        (
            {"accelerator": Accelerator.cpu, "gpus_per_node": 1, "memory_bytes": -1, "network_gbps": -2.0, "memory_target": 0.0},
            None,
            """\
error[ZC123] hardware.memory_bytes=-1 is not 0 or more
  try: hardware.memory_bytes=0
error[ZC123] hardware.network_gbps=-2.0 is not 0 or more
  try: hardware.network_gbps=0
error[ZC123] hardware.memory_target=0.0 is not a share, above 0 and at most 1
  try: hardware.memory_target=0.8""",
        ),
    ],
)
def test_problems(config: dict[str, Any], detected: Detected | None, report: str) -> None:
    assert "\n".join(problem.render() for problem in resolve_hardware(HardwareConfig(**config), detected).problems) == report


def test_a_detected_gpu_has_the_link_rate_of_its_data_sheet() -> None:
    gpu = DetectedGpu(index=0, uuid="GPU-1", name="NVIDIA H200", memory_bytes=150754820096, compute_capability=(9, 0))
    for link, rate in (("nvswitch", 450.0), ("pcie", 63.0)):
        machine = Detected(cpus=8, host_memory_bytes=2**38, numa_nodes=1, gpus=(gpu,), link=link, p2p=True)
        assert resolve_hardware(HardwareConfig(detect=True), machine).value.link_gbps == rate


def test_what_a_partition_says_is_not_called_this_machine() -> None:
    there = replace(TWO_H200, place="partition big (scontrol: gres gpu:h200:2)")
    asked = HardwareConfig(detect=True, gpus_per_node=1)
    reasons = {path: reason.text for path, reason in resolve_hardware(asked, there).reasons.items()}
    assert reasons["gpu"] == "read off partition big (scontrol: gres gpu:h200:2)"
    assert reasons["cpus_per_node"] == "1 of the 2 GPUs of partition big (scontrol: gres gpu:h200:2): that share of its 32 cores"
    assert not [text for text in reasons.values() if "this machine" in text]
