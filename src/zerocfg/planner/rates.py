"""What a machine reaches: data-sheet peaks times named efficiencies, or what `zerocfg calibrate` measured on it.

Measured here, unless another source is named: two H200 (NVSwitch), torch 2.11, CUDA 13, DeepSpeed 0.19.8.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from zerocfg.facts import HardwareFacts

MATMUL_CEILING = {(10, 0): 0.78, (9, 0): 0.80, (8, 0): 0.87, (0, 0): 0.80}
"""Best matrix product over the dense peak, by least compute capability: maximum achievable matmul FLOPS on A100, H100 and H200,
B200 (ml-engineering, compute/accelerator)."""

SUSTAINED = 0.86
"""Of that ceiling, what the products of a whole training step reach at their shapes and at the clocks of a loaded board:
667-690 of 794 TFLOP/s on H200."""

ATTENTION = {(9, 0): 0.89, (8, 0): 1.1, (0, 0): 0.25}
"""Causal attention, forward and backward, counted in full, over the dense peak: 698-977 of 989 TFLOP/s on H200; on A100 twice
the 170 TFLOP/s that FlashAttention-2 counts causally (Dao 2023, figure 4). Without flash kernels: memory-efficient attention."""

MEMORY = 0.875
"""Copy bandwidth, read and write counted: 4203 of 4800 GB/s on H200."""

PCIE = 0.86
"""Pinned copies: 54-55 of 63 GB/s on H200."""

ALL_REDUCE_LINK, GATHER_LINK = 0.72, 0.60
"""Bus bandwidth over the link's, two ranks: 320 and 270 of 450 GB/s."""
GATHER_LINK_MANY = 0.80
"""From four ranks on: 361 of 450 GB/s over 8 x H200 (all-gather, 16 GiB, nccl-tests); all-reduce 229 of 300 over 8 x A100."""
HOST_STAGED = 0.45
"""PCIe between boards without peer-to-peer access: through host memory."""
NETWORK = 0.74
"""Of the network cards at large messages: 8 x H100, EFA (ml-engineering, network)."""

LATENCY_US, LATENCY_RANK_US, LATENCY_NODE_US = 17.0, 3.5, 14.0
"""A collective of a few bytes: 24 us over two ranks, 44 us over eight (nccl.csv); a network hop more for each node
(NCCL src/graph/tuning.cc, hwLat NET)."""

LAUNCH_US = 8.6
"""Host time of one torch operator, kernel launch included."""
KERNEL_US = 4.0
"""GPU time that a kernel takes at least: ramp up and down (2048^3 in 27 us, 22 of them at the rate of large products)."""
STAGE3_MODULE_US = 650.0
"""Host time that stage 3's hooks take for one module with parameters of its own in one forward and backward pass: fetch and
release, twice. This and the next five: a 1.3 B GPT's steps of 0.29-0.39 s (block as leaf module), 0.47 s (DeepSpeed's defaults) and
0.52 s (by module, small buckets), which differ by a third from host to host, shared out as the host's CPU time was on two CPU ranks."""
STAGE3_GATHER_US = 150.0
"""Of one parameter in a module's gather: the wait for it and its release. With norms and biases gathered by the block, not kept, a step
took 40 ms longer where each is gathered once and 90 ms where it is twice (242 of them)."""
STAGE3_GRADIENT_US = 450.0
"""Of one parameter's gradient hook at stage 3."""
STAGE3_REDUCE_US = 500.0
"""Of one reduction at stage 3: gradients cut by rank, flattened, scattered, copied to their parts."""
STAGE3_LINEAR_US = 150.0
"""That DeepSpeed's linear layer takes more than torch's own, both passes: a Python function each way."""
STAGE3_PERSISTENT_US = 40.0
"""Of gathering one parameter that stays whole, after each step, in a call of its own (stage3.py:2834)."""
BUCKET_US = 60.0
"""Host time of one parameter's gradient hook at stages 1 and 2: a copy into the bucket."""
CPU_ADAM_PER_CORE = 50e6
"""Parameters a second and core, DeepSpeed's CPU Adam with fp32 moments and what goes with it on the host (norm, unscale): 657 M
parameters a rank in 0.85 s on 16 cores, two ranks at a time."""
NVME_GBPS = 3.0
"""One PCIe 4 drive under DeepSpeed's aio, reads and writes mixed."""

UNKNOWN_TFLOPS, UNKNOWN_MEMORY_GBPS = 100.0, 1000.0
"""A GPU that no data sheet was found for."""
UNKNOWN_PCIE_GBPS, UNKNOWN_NETWORK_GBPS = 16.0, 1.25
"""PCIe 3 x16; 10 Gbit/s."""
CPU_CORE_TFLOPS, CPU_MEMORY_GBPS = 0.03, 20.0


@dataclass(frozen=True, slots=True)
class Curve:
    """Time of a collective: latency + bytes on the bus / bandwidth."""

    latency_us: float
    gbps: float
    """Bus bandwidth as nccl-tests count it, GB/s."""

    def seconds(self, bus_bytes: float, calls: float = 1) -> float:
        return calls * self.latency_us * 1e-6 + bus_bytes / (self.gbps * 1e9)


@dataclass(frozen=True, kw_only=True, slots=True)
class Rates:
    """Of one GPU (or one rank on cpu)."""

    source: str
    """data sheet, or where the calibration came from."""
    matmul_tflops: Mapping[str, float]
    """dtype -> TFLOP/s of large products; tf32 beside fp32, fp16 and bf16."""
    attention_tflops: float
    """Causal attention counted in full, TFLOP/s, 16 bit."""
    memory_gbps: float
    launch_us: float
    kernel_us: float
    stage3_module_us: float
    stage3_gather_us: float
    stage3_gradient_us: float
    stage3_reduce_us: float
    stage3_linear_us: float
    stage3_persistent_us: float
    bucket_us: float
    all_reduce: Curve
    all_gather: Curve
    reduce_scatter: Curve
    inside: Curve
    """All-gather among the ranks of one node: what hpZ uses."""
    h2d_gbps: float
    d2h_gbps: float
    cpu_adam: float
    """Parameters a second of one rank's cores."""
    nvme_gbps: float
    """Of one node's drive."""
    peak_tflops: Mapping[str, float]
    """Data sheet, what MFU is counted against."""

    def matmul(self, dtype: str, *, tf32: bool = False) -> float:
        """FLOP/s."""
        return self.matmul_tflops["tf32" if tf32 and dtype == "fp32" else dtype] * 1e12


def by_capability(table: Mapping[tuple[int, int], float], capability: tuple[int, int]) -> float:
    return table[max(least for least in table if least <= capability)]


def rates_of(hardware: HardwareFacts, calibration: Mapping[str, Any] | None = None) -> Rates:
    """Rates of `hardware`. calibration: what `zerocfg calibrate` wrote for the same GPUs; it wins over the data sheet."""
    found = _data_sheet(hardware)
    return calibrated(found, calibration) if calibration else found


def _data_sheet(hw: HardwareFacts) -> Rates:
    capability = hw.compute_capability
    cores = max(1, hw.cpus_per_node // max(1, hw.gpus_per_node))
    half = hw.bf16_tflops or hw.fp16_tflops or hw.tf32_tflops or hw.fp32_tflops or UNKNOWN_TFLOPS
    fp32 = hw.fp32_tflops or half / 8
    peak = {"bf16": hw.bf16_tflops or half, "fp16": hw.fp16_tflops or half, "tf32": hw.tf32_tflops or fp32, "fp32": fp32}
    if not hw.is_cuda:
        peak = dict.fromkeys(peak, cores * CPU_CORE_TFLOPS)
    share = by_capability(MATMUL_CEILING, capability) * SUSTAINED
    tensor = max(peak["bf16"], peak["fp16"])
    memory = hw.memory_bandwidth_gbps or (UNKNOWN_MEMORY_GBPS if hw.is_cuda else CPU_MEMORY_GBPS)
    gather, reduce = _links(hw)
    latency = LATENCY_US + LATENCY_RANK_US * hw.gpus_per_node + LATENCY_NODE_US * (hw.num_nodes - 1)
    inside = Curve(LATENCY_US + LATENCY_RANK_US * hw.gpus_per_node, _inside(hw)[0])
    return Rates(
        source="data sheet" if any((hw.bf16_tflops, hw.fp16_tflops, hw.fp32_tflops)) else "no data sheet: rough guesses",
        # plain fp32 products run on the vector units: 50 of 67 TFLOP/s on H200
        matmul_tflops={name: value * (0.75 if name == "fp32" else share) for name, value in peak.items()},
        attention_tflops=tensor * by_capability(ATTENTION, capability),
        memory_gbps=memory * MEMORY,
        launch_us=LAUNCH_US,
        kernel_us=KERNEL_US if hw.is_cuda else 0.0,
        stage3_module_us=STAGE3_MODULE_US,
        stage3_gather_us=STAGE3_GATHER_US,
        stage3_gradient_us=STAGE3_GRADIENT_US,
        stage3_reduce_us=STAGE3_REDUCE_US,
        stage3_linear_us=STAGE3_LINEAR_US,
        stage3_persistent_us=STAGE3_PERSISTENT_US,
        bucket_us=BUCKET_US,
        all_reduce=Curve(1.4 * latency, reduce),
        all_gather=Curve(latency, gather),
        reduce_scatter=Curve(latency, gather),
        inside=inside,
        h2d_gbps=(hw.pcie_gbps or UNKNOWN_PCIE_GBPS) * PCIE,
        d2h_gbps=(hw.pcie_gbps or UNKNOWN_PCIE_GBPS) * PCIE,
        cpu_adam=cores * CPU_ADAM_PER_CORE,
        nvme_gbps=NVME_GBPS,
        peak_tflops=peak,
    )


def _inside(hw: HardwareFacts) -> tuple[float, float]:
    """Bus bandwidth of all-gather and of all-reduce inside one node, GB/s."""
    if not hw.is_cuda:
        return 2.0, 2.0
    if hw.link in ("nvswitch", "nvlink") and hw.link_gbps:
        gather = GATHER_LINK_MANY if hw.gpus_per_node >= 4 else GATHER_LINK
        return hw.link_gbps * gather, hw.link_gbps * max(gather, ALL_REDUCE_LINK)
    pcie = (hw.pcie_gbps or UNKNOWN_PCIE_GBPS) * (PCIE if hw.p2p else HOST_STAGED)
    return pcie, pcie


def _links(hw: HardwareFacts) -> tuple[float, float]:
    """Of the whole world: a ring over nodes passes each byte through one node's network cards."""
    gather, reduce = _inside(hw)
    if hw.num_nodes > 1:
        network = (hw.network_gbps or UNKNOWN_NETWORK_GBPS) * NETWORK
        return min(gather, network), min(reduce, network)
    return gather, reduce


COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter")
"""What training steps use: their curves."""


def bus_factor(op: str, world: int) -> float:
    """Bus bandwidth / algorithm bandwidth, as nccl-tests define it: what each link carries of what the operation moves."""
    if op == "all_reduce":
        return 2 * (world - 1) / world
    return 1.0 if op == "broadcast" else (world - 1) / world


CALIBRATED = ("attention_tflops", "memory_gbps", "launch_us", "h2d_gbps", "d2h_gbps", "stage3_module_us")
"""Numbers that a calibration holds under the same name."""


def calibrated(base: Rates, found: Mapping[str, Any]) -> Rates:
    """`base` with what a calibration measured in place of the data sheet; what it lacks stays."""
    changes: dict[str, Any] = {name: float(found[name]) for name in CALIBRATED if found.get(name)}
    if matmul := found.get("matmul_tflops"):
        measured = {name: float(value) for name, value in matmul.items() if value}
        changes["matmul_tflops"] = {**base.matmul_tflops, **measured}
    if found.get("cpu_adam_per_core") and found.get("cpu_adam_cores"):
        per_core = float(found["cpu_adam_per_core"])
        changes["cpu_adam"] = base.cpu_adam / CPU_ADAM_PER_CORE * per_core
    for name in COLLECTIVES:
        if points := found.get(name):
            changes[name] = fit(points)
    if "all_gather" in changes:
        changes["inside"] = changes["all_gather"]
    return replace(base, source=str(found.get("source", "calibration")), **changes)


def fit(points: list[list[float]]) -> Curve:
    """A curve through measured (bus bytes, microseconds): the least time is the latency, the largest size the bandwidth."""
    latency = min(us for _, us in points)
    size, us = max(points)
    return Curve(latency, size / max(us - latency, 0.1 * us) / 1e3)
