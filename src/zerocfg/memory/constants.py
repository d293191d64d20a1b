"""What no formula gives: measured constants, each with its source. Bytes unless a ratio."""

from __future__ import annotations

MIB = 2**20
GIB = 2**30

CUDA_CONTEXT_BYTES = 600 * MIB
"""CUDA context and loaded kernels of one process: 0.47-0.92 GiB on A100 (ml-engineering), 1113 MiB on V100 (BigScience tr3m)."""

NCCL_BYTES = {9: 1500 * MIB, 0: 900 * MIB}
"""By the least compute capability: NCCL's channels and buffers once the ranks have talked, from two ranks on. Together with the CUDA
context and torch.distributed about 1.5 GiB on 8 x A100 (ml-engineering, training/performance); on two H200 1.77 GiB after all-reduces
alone, 2.05 GiB when all kinds of collectives have run."""

DRIVER_SHARE = 0.012
"""Of a card's nominal memory: kept by the driver and ECC. A100-80GB gives a process 79.15 of 80 GiB, H200 139.8 of 141."""

RESERVED_OVER_ALLOCATED = {0: 1.14, 1: 1.15, 2: 1.17, 3: 1.15}
"""Peak of reserved over peak of allocated memory, by ZeRO stage, without recomputation: 27 runs of a 1.3 B GPT and a 1.5 B Llama on H200,
each within 0.08 of its stage's except one with offload and accumulation (1.28); stage 3 was 1.23 in DeepSpeed issue 3734: it gathers and
frees weights of many sizes."""

RESERVED_BY_RECOMPUTATION = 1.13
"""That times this with recomputation: six runs of the same models, 1.24 to 1.40 in all. What one layer recomputes is freed between the
inputs kept for others."""

FRAGMENTATION = 1.03
"""The part of reserved over allocated that stays when memory is short: before it gives up, the caching allocator returns
its free blocks to the driver, so that most of RESERVED_OVER_ALLOCATED is given back."""

CLOSE_TO_LIMIT = 0.95
"""Share of the card above which a warning is due: estimates are within 5 % in the median."""

CUBLAS_WORKSPACES = 2
"""One for each thread that multiplies: the script's and autograd's (aten/src/ATen/cuda/CublasHandlePool.cpp)."""

CUBLAS_WORKSPACE_BYTES = {9: 32 * MIB, 0: 8 * MIB + 128 * 1024}
"""By the least compute capability: torch's default of CUBLAS_WORKSPACE_CONFIG, :4096:8 from Hopper on, :4096:2:16:8 before."""

ALLREDUCE_ELEMENTS = 500_000_000
"""Elements that the engine flattens for one all-reduce at stage 0 (engine.py:151, MEMORY_OPT_ALLREDUCE_SIZE)."""

MIN_SWAP_BYTES = MIB
"""Smaller tensors stay in host memory when the rest goes to NVMe (swap_tensor/utils.py:14)."""

MUON_CACHE_BYTES = 256 * MIB
"""Gathered matrices that the Muon update keeps (stage_1_and_2.py:408)."""
