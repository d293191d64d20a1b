"""`estimate`: a plan's memory, by GPU and by node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from zerocfg.errors import ZerocfgError
from zerocfg.memory.activations import closed_form
from zerocfg.memory.constants import (
    CUBLAS_WORKSPACE_BYTES,
    CUBLAS_WORKSPACES,
    CUDA_CONTEXT_BYTES,
    DRIVER_SHARE,
    FRAGMENTATION,
    NCCL_BYTES,
    RESERVED_BY_RECOMPUTATION,
    RESERVED_OVER_ALLOCATED,
)
from zerocfg.memory.host import host_memory
from zerocfg.memory.moments import PARTS, PHASES, Moment
from zerocfg.memory.parameters import cut_over, parameters_of
from zerocfg.memory.replicated import bf16_optimizer, stage_0
from zerocfg.memory.sharded import stages_1_and_2
from zerocfg.memory.stage3 import stage_3
from zerocfg.memory.states import BF16_OPTIMIZER, ZERO_1_2, ZERO_3, Rank
from zerocfg.plan import Plan
from zerocfg.traced import ActivationTrace, ModelParameters, same_width


class ModelNotDescribed(ZerocfgError):
    """Nothing can be said about a model without dims and without a trace."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryEstimate:
    """Bytes, on the rank with the most."""

    peak_allocated_bytes: int
    """torch.cuda.max_memory_allocated after a few steps."""
    peak_reserved_bytes: int
    """torch.cuda.max_memory_reserved."""
    parts: Mapping[str, int]
    """What is allocated at the peak, by `moments.PARTS`; the sum is peak_allocated_bytes."""
    phase: str
    """init, forward, backward or step."""
    moment: str
    phases: Mapping[str, int]
    """Phase -> its highest allocated bytes."""
    moments: tuple[Moment, ...]
    context_bytes: int
    """CUDA context, NCCL, and of a card known by its data sheet what the driver keeps: outside of torch's allocator."""
    memory_bytes: int
    """Of the card."""
    host_bytes_per_node: int
    pinned_bytes_per_node: int
    """The part of host_bytes_per_node that is page-locked."""
    host_parts: Mapping[str, int]
    nvme_bytes_per_node: int
    source: str
    """Where the activations come from: closed form, traced."""

    @property
    def usable_bytes(self) -> int:
        """Of the card, for torch's allocator."""
        return max(0, self.memory_bytes - self.context_bytes)

    @property
    def needed_bytes(self) -> int:
        """Of the card: what is allocated, the fragmentation that cannot be given back, context."""
        return int(self.peak_allocated_bytes * FRAGMENTATION) + self.context_bytes

    @property
    def fits(self) -> bool:
        return self.needed_bytes <= self.memory_bytes

    @property
    def headroom_bytes(self) -> int:
        """Card less what is needed; negative when it does not fit."""
        return self.memory_bytes - self.needed_bytes

    def within(self, target: float) -> bool:
        """Whether the peak stays within `target` of the card: hardware.memory_target, for choosing sizes."""
        return self.needed_bytes <= target * self.memory_bytes

    def as_dict(self) -> dict[str, Any]:
        """The shape of `zerocfg memory --json`."""
        return {
            "peak_allocated_bytes": self.peak_allocated_bytes,
            "peak_reserved_bytes": self.peak_reserved_bytes,
            "context_bytes": self.context_bytes,
            "memory_bytes": self.memory_bytes,
            "parts": dict(self.parts),
            "phase": self.phase,
            "moment": self.moment,
            "phases": dict(self.phases),
            "host_bytes_per_node": self.host_bytes_per_node,
            "pinned_bytes_per_node": self.pinned_bytes_per_node,
            "host_parts": dict(self.host_parts),
            "nvme_bytes_per_node": self.nvme_bytes_per_node,
            "fits": self.fits,
            "headroom_bytes": self.headroom_bytes,
            "activations": self.source,
        }


def rank_of(plan: Plan, trace: ActivationTrace | None = None, parameters: ModelParameters | None = None) -> Rank:
    """The most loaded rank of a plan. Raises ModelNotDescribed.

    trace: the model's own activations, as traced for whole samples in a dtype as wide as the plan's; None: the plan's profile, else
    the closed form of plan.model.
    parameters: the model's own; None: the trace's, else those of plan.model.
    """
    topology, model = plan.topology, plan.model
    tp, sp = topology.tensor_parallel_degree, topology.sequence_parallel_degree
    described = closed_form(model, plan.precision.dtype, tensor_parallel_degree=tp, sequence_parallel_degree=sp) if model else None
    trace = trace or plan.profile
    if trace is None:
        if described is None:
            raise ModelNotDescribed(
                "model=none describes no model: give its dims (model=gpt_1b3, model.hf_config=PATH), or trace it (zerocfg profile)"
            )
        trace = described
    else:
        if not same_width(trace.dtype, plan.precision.dtype):
            raise ModelNotDescribed(f"the trace is for {trace.dtype}, the plan for {plan.precision.dtype}: trace it again")
        if tp > 1 and model is not None and described is not None:
            # heads and MLP are cut, the residual stream is not
            whole = closed_form(model, plan.precision.dtype)
            trace = trace.with_blocks_cut(described.block_saved / whole.block_saved, 1 / tp)
        elif tp > 1:
            trace = trace.with_blocks_cut(1.0, 1 / tp)
        elif sp > 1:
            trace = trace.of_part(sp)
    if parameters is None and trace.parameters is not None:
        parameters = trace.parameters if tp == 1 else cut_over(trace.parameters, tp)
    if parameters is None:
        if model is None:
            raise ModelNotDescribed("model=none describes no model, and the trace has no parameters")
        parameters = parameters_of(model, tp)
    return Rank(plan, parameters, trace)


def moments_of(rank: Rank) -> list[Moment]:
    if rank.wrapper == ZERO_3:
        return stage_3(rank)
    if rank.wrapper == ZERO_1_2:
        return stages_1_and_2(rank)
    if rank.wrapper == BF16_OPTIMIZER:
        return bf16_optimizer(rank)
    return stage_0(rank)


def reserved_over_allocated(plan: Plan) -> float:
    recomputed = RESERVED_BY_RECOMPUTATION if plan.activation_checkpointing.enabled else 1.0
    return RESERVED_OVER_ALLOCATED[plan.zero.stage] * recomputed


def estimate(plan: Plan, trace: ActivationTrace | None = None, parameters: ModelParameters | None = None) -> MemoryEstimate:
    """Memory of `plan`. Arguments and errors as `rank_of`."""
    rank = rank_of(plan, trace, parameters)
    cuda = plan.hardware.is_cuda
    generation = max(major for major in CUBLAS_WORKSPACE_BYTES if major <= plan.hardware.compute_capability[0])
    workspace = {"workspace": CUBLAS_WORKSPACES * CUBLAS_WORKSPACE_BYTES[generation]} if cuda else {}
    moments = tuple(Moment(m.phase, m.name, {**m.parts, **(workspace if m.phase != "init" else {})}) for m in moments_of(rank))
    top = max(moments, key=lambda m: m.total)
    host = host_memory(rank)
    ranks = plan.topology.nproc_per_node
    nccl = NCCL_BYTES[max(major for major in NCCL_BYTES if major <= plan.hardware.compute_capability[0])]
    context = (CUDA_CONTEXT_BYTES + (nccl if plan.topology.world_size > 1 else 0)) if cuda else 0
    if cuda and not plan.detected:
        context += int(DRIVER_SHARE * plan.hardware.memory_bytes)
    return MemoryEstimate(
        peak_allocated_bytes=top.total,
        peak_reserved_bytes=int(top.total * (reserved_over_allocated(plan) if cuda else 1)),
        parts={name: top.parts[name] for name in PARTS if name in top.parts},
        phase=top.phase,
        moment=top.name,
        phases={phase: max(m.total for m in moments if m.phase == phase) for phase in PHASES},
        moments=moments,
        context_bytes=context,
        memory_bytes=plan.hardware.memory_bytes,
        host_bytes_per_node=ranks * sum(host.parts.values()),
        pinned_bytes_per_node=ranks * sum(host.pinned.values()),
        host_parts={name: ranks * size for name, size in host.parts.items()},
        nvme_bytes_per_node=ranks * host.nvme,
        source=rank.trace.source,
    )
