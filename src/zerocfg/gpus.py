"""Data-sheet numbers of NVIDIA GPUs, by the name that NVML reports.

A probe can read a GPU's name, memory and compute capability, but not its peak rates; `hardware=auto` takes them from here.
Sources: NVIDIA's data sheets and architecture white papers; dense rates, tensor cores with fp32 accumulation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

GIB = 2**30


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """One board. Zero means: it has none of it."""

    gpu: str
    """Name as in the data sheet, and as in `hardware.gpu`."""
    nvml: str
    """Regular expression over the whole of NVML's name, without a leading "NVIDIA " or "Tesla "."""
    compute_capability: tuple[int, int]
    memory_gib: float
    """Nominal; where ECC is kept in the memory itself (GDDR6 boards of data centres), less the sixteenth that it takes."""
    memory_bandwidth_gbps: float
    """GB/s."""
    fp32_tflops: float
    tf32_tflops: float
    fp16_tflops: float
    bf16_tflops: float
    nvlink_gbps: float
    """One direction, GB/s, all links of the GPU together; of boards with a bridge: of the bridge."""
    pcie_gbps: float
    """Link to the host, one direction, GB/s: PCIe x16, or NVLink-C2C on Grace."""
    p2p: bool = True
    """Peer access between two of them over PCIe with NVIDIA's driver."""

    @property
    def memory_bytes(self) -> int:
        return int(self.memory_gib * GIB)

    def link_gbps(self, link: str) -> float:
        """Into the given link (nvswitch, nvlink, pcie, none), one direction, GB/s."""
        return {"nvswitch": self.nvlink_gbps, "nvlink": self.nvlink_gbps, "pcie": self.pcie_gbps}.get(link, 0.0)


# fmt: off
TABLE: tuple[GpuFacts, ...] = (
    #        data sheet         NVML                               cc       GiB    GB/s  fp32   tf32   fp16   bf16   nvlink pcie
    GpuFacts("T4",              r"T4",                             (7, 5),  15.0,  320,  8.1,   0,     65,    0,     0,     15.75),
    GpuFacts("V100-SXM2-16GB",  r"V100-SXM[23]-16GB",              (7, 0),  16,    900,  15.7,  0,     125,   0,     150,   15.75),
    GpuFacts("V100-SXM2-32GB",  r"V100-SXM[23]-32GB(-LS)?",        (7, 0),  32,    900,  15.7,  0,     125,   0,     150,   15.75),
    GpuFacts("V100-PCIe-16GB",  r"V100-PCIE-16GB",                 (7, 0),  16,    900,  14.0,  0,     112,   0,     0,     15.75),
    GpuFacts("V100-PCIe-32GB",  r"V100-PCIE-32GB",                 (7, 0),  32,    900,  14.0,  0,     112,   0,     0,     15.75),
    GpuFacts("A100-SXM4-40GB",  r"A100-SXM4?-40GB",                (8, 0),  40,    1555, 19.5,  156,   312,   312,   300,   31),
    GpuFacts("A100-SXM4-80GB",  r"A100-SXM4?-80GB",                (8, 0),  80,    2040, 19.5,  156,   312,   312,   300,   31),
    GpuFacts("A100-PCIe-40GB",  r"A100-PCIE-40GB",                 (8, 0),  40,    1555, 19.5,  156,   312,   312,   300,   31),
    GpuFacts("A100-PCIe-80GB",  r"A100[ -](80GB PCIe|PCIE-80GB)",  (8, 0),  80,    1940, 19.5,  156,   312,   312,   300,   31),
    GpuFacts("A10",             r"A10",                            (8, 6),  22.5,  600,  31.2,  62.5,  125,   125,   0,     31),
    GpuFacts("A40",             r"A40",                            (8, 6),  45,    696,  37.4,  74.8,  149.7, 149.7, 56.25, 31),
    GpuFacts("RTX A6000",       r"RTX A6000",                      (8, 6),  48,    768,  38.7,  77.4,  154.8, 154.8, 56.25, 31),
    GpuFacts("RTX 3090",        r"GeForce RTX 3090",               (8, 6),  24,    936,  35.6,  35.6,  71,    71,    56.25, 31, False),
    GpuFacts("L4",              r"L4",                             (8, 9),  22.5,  300,  30.3,  60,    121,   121,   0,     31),
    GpuFacts("L40S",            r"L40S",                           (8, 9),  45,    864,  91.6,  183,   362,   362,   0,     31),
    GpuFacts("RTX 4090",        r"GeForce RTX 4090",               (8, 9),  24,    1008, 82.6,  82.6,  165.2, 165.2, 0,     31, False),
    GpuFacts("H100-SXM5-80GB",  r"H100 (80GB HBM3|SXM5[ -]80GB)",  (9, 0),  80,    3350, 67,    494.5, 989,   989,   450,   63),
    GpuFacts("H100-SXM5-96GB",  r"H100 (SXM5[ -])?96GB HBM2e",     (9, 0),  96,    2400, 67,    494.5, 989,   989,   450,   63),
    GpuFacts("H100-PCIe-80GB",  r"H100 PCIe",                      (9, 0),  80,    2000, 51,    378,   756,   756,   300,   63),
    GpuFacts("H100-NVL-94GB",   r"H100 NVL",                       (9, 0),  94,    3900, 60,    417.5, 835.5, 835.5, 300,   63),
    GpuFacts("H200-SXM-141GB",  r"H200",                           (9, 0),  141,   4800, 67,    494.5, 989,   989,   450,   63),
    GpuFacts("H200-NVL-141GB",  r"H200 NVL",                       (9, 0),  141,   4800, 60,    420,   840,   840,   450,   63),
    GpuFacts("GH200-SXM-96GB",  r"GH200 (480GB|120GB)",            (9, 0),  96,    4000, 67,    494.5, 989,   989,   450,   450),
    GpuFacts("GH200-SXM-141GB", r"GH200 14[14]GB? HBM3e",          (9, 0),  141,   4800, 67,    494.5, 989,   989,   450,   450),
    GpuFacts("B200-SXM-180GB",  r"B200",                           (10, 0), 180,   8000, 80,    1125,  2250,  2250,  900,   63),
    GpuFacts("GB200",           r"GB200",                          (10, 0), 186,   8000, 80,    1250,  2500,  2500,  900,   359),
    GpuFacts("B300-SXM-288GB",  r"B300( SXM6( AC)?)?",             (10, 3), 288,   8000, 80,    1125,  2250,  2250,  900,   63),
    GpuFacts("GB300",           r"GB300",                          (10, 3), 288,   8000, 80,    1250,  2500,  2500,  900,   359),
    GpuFacts("RTX 5090",        r"GeForce RTX 5090",               (12, 0), 32,    1792, 104.8, 104.8, 209.5, 209.5, 0,     63, False),
)
# fmt: on

_PREFIX = re.compile(r"^(NVIDIA|Tesla)\s+", re.IGNORECASE)


@cache
def gpu_facts(name: str) -> GpuFacts | None:
    """Data-sheet numbers for `name` as NVML or torch.cuda reports it ("NVIDIA H200"), or as `hardware.gpu` has it.

    None for a board that is not in the table, a variant with other rates (A10G, RTX 4090 D), or a MIG slice: no number is
    better than a wrong one.
    """
    bare = name.strip()
    while (shorter := _PREFIX.sub("", bare)) != bare:
        bare = shorter
    for row in TABLE:
        if bare == row.gpu or re.fullmatch(row.nvml, bare, re.IGNORECASE):
            return row
    return None
