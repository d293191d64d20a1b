from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from zerocfg.schema.types import Accelerator, Count, LinkKind, NetworkKind


@dataclass
class HardwareConfig:
    """Group `hardware`: the nodes that the run is for. A field left null is read off this machine when `detect` is on."""

    name: str = ""
    """The option's name, for reports."""
    detect: bool = False
    """Read this machine for every field left null, and allow the launcher to use whatever is found."""
    accelerator: Optional[Accelerator] = None
    """cuda or cpu."""
    gpu: Optional[str] = None
    """Model name as in NVIDIA's data sheet, A100-SXM4-80GB; empty on cpu."""
    num_nodes: Count = 1
    """Number of nodes."""
    gpus_per_node: Optional[Count] = None
    """Ranks a node: one a GPU; on cpu the number of processes."""
    memory_bytes: Optional[Count] = None
    """Memory of one GPU in bytes (nominal, 80 GB = 80 * 2**30 as torch.cuda reports it within 1-2 %)."""
    compute_capability: Optional[str] = None
    """CUDA compute capability in quotes, "8.0"."""
    fp32_tflops: Optional[float] = None
    """Dense peak, TFLOP/s, vector units."""
    tf32_tflops: Optional[float] = None
    """Dense peak, TFLOP/s; 0 where the GPU has no TF32."""
    fp16_tflops: Optional[float] = None
    """Dense tensor-core peak with fp32 accumulation, TFLOP/s."""
    bf16_tflops: Optional[float] = None
    """Dense tensor-core peak, TFLOP/s; 0 where the GPU has no bf16."""
    memory_bandwidth_gbps: Optional[float] = None
    """HBM or GDDR bandwidth of one GPU, GB/s."""
    link: Optional[LinkKind] = None
    """How the GPUs of one node are linked."""
    link_gbps: Optional[float] = None
    """Bandwidth of one GPU into that link, one direction, GB/s."""
    p2p: Optional[bool] = None
    """Whether GPUs of one node may read each other's memory; off on consumer GPUs, then NCCL_P2P_DISABLE=1."""
    pcie_gbps: Optional[float] = None
    """Host link of one GPU, one direction, GB/s."""
    network: Optional[NetworkKind] = None
    """How nodes are linked."""
    network_gbps: Optional[float] = None
    """Bandwidth of one node into the network, one direction, GB/s (400 Gbit/s = 50 GB/s)."""
    network_interface: Optional[str] = None
    """Name for NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME, eth0; null leaves the choice to NCCL."""
    cpus_per_node: Optional[Count] = None
    """Cores of one node that the run may use. Null: cpus_per_gpu x gpus_per_node."""
    cpus_per_gpu: Optional[Count] = None
    """Cores of one node for each of its GPUs, so that a run on some of the GPUs leaves the others theirs."""
    host_memory_bytes: Optional[Count] = None
    """Main memory of one node, bytes."""
    numa_nodes: Optional[Count] = None
    """NUMA nodes of one machine; with more than one, torchrun binds each rank to its GPU's node."""
    memory_target: float = 0.8
    """Share of memory_bytes that a plan may use."""
