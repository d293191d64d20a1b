"""The moments of a training step at which memory can peak. Between two of them it only grows or only falls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zerocfg.memory.states import Rank
from zerocfg.traced import OUTSIDE

PHASES = ("init", "forward", "backward", "step")
PARTS: dict[str, str] = {
    "parameters": "parameters",
    "fp32_master": "master weights",
    "optimizer_states": "optimizer states",
    "gradients": "gradients",
    "live_parameters": "gathered parameters",
    "gather_buffers": "all-gather buffers",
    "secondary_parameters": "hpZ secondary shard",
    "reduce_buffers": "reduce buckets",
    "offload_buffers": "offload buffers",
    "activations": "activations",
    "logits_and_loss": "logits and loss",
    "step_transients": "transients of the step",
    "workspace": "library workspace",
}
"""Name in JSON -> name for people."""


@dataclass(frozen=True, slots=True)
class Moment:
    phase: str
    name: str
    parts: Mapping[str, int]

    @property
    def total(self) -> int:
        return sum(self.parts.values())


def moment(phase: str, name: str, resident: Mapping[str, int], **more: int) -> Moment:
    """`more` on top of what is resident."""
    parts = dict(resident)
    for part, size in more.items():
        parts[part] = parts.get(part, 0) + size
    return Moment(phase, name, {part: int(parts[part]) for part in PARTS if parts.get(part)})


@dataclass(frozen=True, slots=True)
class Held:
    """Activations and loss at the moments of forward and backward pass, bytes."""

    body: int
    """When the blocks' forward pass is done."""
    loss_forward: int
    loss_backward: int
    head_backward: int
    last_block: int
    """During the backward pass of the last block, the first to run."""
    first_block: int
    embedding: int
    """When the embedding's gradient is computed, the last of all."""


def held(rank: Rank) -> Held:
    """From the model's trace, for the plan's micro batch."""
    trace, plan, n = rank.trace, rank.plan, rank.micro
    options = plan.activation_checkpointing
    if not options.enabled:
        body = trace.kept(n, checkpointing=False)
        last = body + n * trace.block_backward
    else:
        # DeepSpeed's cpu_checkpointing keeps the newest input on the GPU (checkpointing.py:515)
        inputs = 1 if options.cpu_checkpointing else trace.num_blocks
        size = trace.block_input
        if options.partition_activations:
            size //= plan.topology.tensor_parallel_degree
        body = trace.shared + n * (trace.outside_saved + inputs * size)
        last = body + n * (trace.block_saved + trace.block_backward)
    first = trace.shared + n * (trace.outside_saved + trace.block_saved + trace.block_backward)
    return Held(
        body=body,
        loss_forward=n * trace.loss_forward,
        loss_backward=n * trace.loss_backward,
        head_backward=n * trace.head_backward,
        last_block=last,
        first_block=first,
        embedding=trace.shared + n * (trace.outside_saved + trace.block_input),
    )


def passes(
    rank: Rank,
    resident: Mapping[str, int],
    *,
    kept: Mapping[str, int] | None = None,
    early: Mapping[str, int] | None = None,
    reducing: Mapping[str, int] | None = None,
    late: Mapping[str, int] | None = None,
    copies: Mapping[str, int] | None = None,
) -> list[Moment]:
    """Forward and backward pass of the last micro batch.

    kept: on top of what is resident in all of them (gradients of earlier micro batches, gathered weights). early: from the
    first gradient on (buckets). reducing: from the first full bucket on, a share of the backward pass later. late: when the
    backward pass reaches the first block. copies: on top of both, while a bucket is reduced; None: nothing is reduced.
    """
    held_now, width, p = held(rank), rank.param_width, rank.parameters
    base = dict(kept or {})

    def at(phase: str, name: str, extra: Mapping[str, int] | None, **more: int) -> Moment:
        parts = dict(base)
        for source in (extra or {}, more):
            for part, size in source.items():
                parts[part] = parts.get(part, 0) + size
        return moment(phase, name, resident, **parts)

    # a shared embedding's gradient waits in autograd until its other use has run
    tied = width * p.head_numel if p.is_tied else 0
    block_gradient = tied + width * p.largest_in_block
    found = [
        at("forward", "loss", {}, activations=held_now.body, logits_and_loss=held_now.loss_forward),
        at("backward", "loss", {}, activations=held_now.body, logits_and_loss=held_now.loss_backward),
        at("backward", "head", {}, activations=held_now.body, logits_and_loss=held_now.head_backward, gradients=width * p.head_numel),
        at("backward", "last block", early, activations=held_now.last_block, gradients=block_gradient),
        at("backward", "first block", late, activations=held_now.first_block, gradients=block_gradient),
        at("backward", "embedding", late, activations=held_now.embedding, gradients=tied + width * p.embedding_numel),
    ]
    if copies is not None:
        # reduced when a weight's gradient is ready: what the block's operators needed is gone, the gradient that goes on is not
        between = rank.micro * (rank.trace.block_backward - rank.trace.block_input)
        if rank.gathers_blocks:
            # a leaf module's gradients wait for each other until the block is done (stage3.py:1532)
            block_gradient = tied + width * p.trainable_in_block
            between += rank.micro * rank.trace.block_saved
        done = until_first_reduce(rank)
        first = held_now.last_block - int(done * (held_now.last_block - held_now.first_block)) - between
        for name, state, activations in (
            ("first reduction", reducing, first),
            ("last reduction", late, held_now.first_block - between),
        ):
            found.append(at("backward", name, _both(state, copies), activations=activations, gradients=block_gradient))
    return found


def _both(one: Mapping[str, int] | None, other: Mapping[str, int]) -> dict[str, int]:
    first = one or {}
    return {part: first.get(part, 0) + other.get(part, 0) for part in {**first, **other}}


def until_first_reduce(rank: Rank) -> float:
    """Share of the backward pass that is over when the first bucket is reduced: gradients come from the last parameter on."""
    size = rank.plan.zero.reduce_bucket_size
    filled = 0
    for parameter in reversed(rank.parameters.trainable):
        if parameter.head and rank.parameters.is_tied:
            continue
        if filled + parameter.numel > size:
            break
        filled += parameter.numel
    blocks = sum(p.numel for p in rank.parameters.trainable if p.block != OUTSIDE)
    head = 0 if rank.parameters.is_tied else rank.parameters.head_numel
    return min(1.0, max(0, filled - head) / max(1, blocks))
