from __future__ import annotations

import pytest

from zerocfg.gpus import TABLE, GpuFacts, gpu_facts


@pytest.mark.parametrize(
    ("nvml_name", "gpu"),
    [
        ("Tesla T4", "T4"),
        ("Tesla V100-SXM2-16GB", "V100-SXM2-16GB"),
        ("Tesla V100-SXM2-32GB", "V100-SXM2-32GB"),
        ("NVIDIA Tesla V100-PCIE-32GB", "V100-PCIe-32GB"),
        ("A100-SXM4-40GB", "A100-SXM4-40GB"),
        ("NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB"),
        ("NVIDIA A100 80GB PCIe", "A100-PCIe-80GB"),
        ("NVIDIA A10", "A10"),
        ("NVIDIA A40", "A40"),
        ("NVIDIA RTX A6000", "RTX A6000"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA GeForce RTX 3090", "RTX 3090"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("NVIDIA GeForce RTX 5090", "RTX 5090"),
        ("NVIDIA H100 80GB HBM3", "H100-SXM5-80GB"),
        ("NVIDIA H100 PCIe", "H100-PCIe-80GB"),
        ("NVIDIA H100 NVL", "H100-NVL-94GB"),
        ("NVIDIA H200", "H200-SXM-141GB"),
        ("NVIDIA H200 NVL", "H200-NVL-141GB"),
        ("NVIDIA GH200 480GB", "GH200-SXM-96GB"),
        ("NVIDIA B200", "B200-SXM-180GB"),
        ("NVIDIA GB200", "GB200"),
    ],
)
def test_names_as_the_driver_reports_them(nvml_name: str, gpu: str) -> None:
    facts = gpu_facts(nvml_name)
    assert facts is not None
    assert facts.gpu == gpu


@pytest.mark.parametrize(
    "name", ["", "NVIDIA A10G", "NVIDIA GeForce RTX 4090 D", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "NVIDIA H20", "NVIDIA L40", "Tesla"]
)
def test_a_board_with_other_rates_is_not_taken_for_a_known_one(name: str) -> None:
    assert gpu_facts(name) is None


def test_every_row_is_found_by_its_data_sheet_name_and_by_one_pattern_alone() -> None:
    assert [gpu_facts(row.gpu) for row in TABLE] == list(TABLE)
    assert len({row.gpu for row in TABLE}) == len(TABLE)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.gpu)
def test_rates_follow_the_architecture(row: GpuFacts) -> None:
    ampere_or_newer = row.compute_capability >= (8, 0)
    assert (row.bf16_tflops > 0) is ampere_or_newer
    assert (row.tf32_tflops > 0) is ampere_or_newer
    if ampere_or_newer:
        assert row.bf16_tflops == row.fp16_tflops
    assert row.fp16_tflops > row.fp32_tflops > 0
    assert row.memory_bytes == row.memory_gib * 2**30


def test_link_bandwidth_by_kind() -> None:
    h200 = gpu_facts("NVIDIA H200")
    assert h200 is not None
    assert {kind: h200.link_gbps(kind) for kind in ("nvswitch", "nvlink", "pcie", "none")} == {
        "nvswitch": 450,
        "nvlink": 450,
        "pcie": 63,
        "none": 0,
    }
