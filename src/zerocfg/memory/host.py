"""Host memory and NVMe that offloading takes, a node. What Python, torch and CUDA take of the host by themselves is not in it."""

from __future__ import annotations

from dataclasses import dataclass

from zerocfg.memory.activations import DTYPE_BYTES
from zerocfg.memory.constants import MIN_SWAP_BYTES
from zerocfg.memory.parameters import owned_elements, sharded
from zerocfg.memory.sharded import compact
from zerocfg.memory.states import Rank
from zerocfg.traced import total

HOST_PARTS: dict[str, str] = {
    "parameters": "parameters",
    "fp32_master": "master weights",
    "optimizer_states": "optimizer states",
    "gradients": "gradients",
    "offload_buffers": "swap and copy buffers",
    "activations": "activations",
}


@dataclass(frozen=True, slots=True)
class HostMemory:
    """Bytes of one rank, by part."""

    pageable: dict[str, int]
    pinned: dict[str, int]
    nvme: int

    @property
    def parts(self) -> dict[str, int]:
        both = {name: self.pageable.get(name, 0) + self.pinned.get(name, 0) for name in HOST_PARTS}
        return {name: size for name, size in both.items() if size}


def host_memory(rank: Rank) -> HostMemory:
    """Bytes of main memory and of NVMe that offloading and cpu_checkpointing take; without page-locked buffers all of it is pageable."""
    found = _stage_3(rank) if rank.plan.zero.stage == 3 else _stages_1_and_2(rank)
    options, n = rank.plan.activation_checkpointing, rank.micro
    if options.enabled and options.cpu_checkpointing:
        found.pinned["activations"] = n * rank.trace.num_blocks * rank.trace.block_input
    if not rank.plan.offload.pin_memory:
        for name, size in found.pinned.items():
            found.pageable[name] = found.pageable.get(name, 0) + size
        return HostMemory(found.pageable, {}, found.nvme)
    return found


def _stages_1_and_2(rank: Rank) -> HostMemory:
    """stage_1_and_2.py:555-665 and 936: all but the optimizer's moments is pinned."""
    if not rank.offloads_optimizer:
        return HostMemory({}, {}, 0)
    b, m, p = rank.param_width, rank.master_width, rank.shard
    pinned = {
        "fp32_master": m * p,
        "parameters": b * p,  # the copy on its way to the GPU
        "gradients": m * p,
        "offload_buffers": b * rank.parameters.largest,
    }
    if rank.accumulates and rank.plan.zero.stage == 2 and not compact(rank) and m == 4:
        # gradients of the micro batches so far, whole parameters (line 1822); stage 1 adds them up on the GPU
        pinned["gradients"] += b * max(owned_elements((q.numel for q in rank.parameters.trainable), rank.shards))
    return HostMemory({"optimizer_states": _cpu_states(rank)}, pinned, 0)


def _stage_3(rank: Rank) -> HostMemory:
    offload, b, a, m, p = rank.plan.offload, rank.param_width, rank.accum_width, rank.master_width, rank.shard
    pageable: dict[str, int] = {}
    pinned: dict[str, int] = {}
    nvme = 0
    if rank.offloads_optimizer:
        share = 1 - rank.gpu_sub_groups
        pinned["gradients"] = a * p  # grad_partitions_flat_buffer, line 791
        states = int(_cpu_states(rank) * share)
        if offload.optimizer == "nvme":
            largest, _ = rank.sub_groups
            swapped = p if largest * m >= MIN_SWAP_BYTES else 0
            # master weights, moments and the step's gradients go out; one gradient buffer and the swap buffers stay
            nvme += 2 * m * swapped + states * swapped // max(1, p)
            pageable = {"fp32_master": m * (p - swapped), "optimizer_states": states - states * swapped // max(1, p)}
            pageable["gradients"] = m * largest
            double = 2 if offload.pipeline_read or offload.pipeline_write else 1
            pinned["offload_buffers"] = offload.optimizer_buffer_count * double * largest * m
        else:
            pageable = {"fp32_master": int(m * p * share), "optimizer_states": states}
            pinned["gradients"] += int(m * p * share)
    if rank.offloads_params:
        frozen = sharded((q.numel for q in rank.parameters.entries if not q.trainable), rank.shards)
        if offload.param == "nvme":
            pinned["offload_buffers"] = pinned.get("offload_buffers", 0) + offload.param_buffer_count * offload.param_buffer_size * b
            stays = min(offload.param_max_in_cpu, p)
            pinned["parameters"] = b * stays
            nvme += b * (p - stays + frozen)
        else:
            pinned["parameters"] = b * (p + frozen)
            hpz = rank.plan.zero.zero_hpz_partition_size
            if hpz > 1:
                pinned["parameters"] += b * -(-total(rank.parameters.entries) // hpz)
    return HostMemory(pageable, pinned, nvme)


def _cpu_states(rank: Rank) -> int:
    """Moments of a step on the CPU, in the master's dtype: CPU Adam keeps bf16 moments only with bf16_optimizer_states."""
    if rank.muon:
        return rank.state_bytes
    return rank.moments * DTYPE_BYTES[rank.plan.precision.master_dtype] * rank.shard
