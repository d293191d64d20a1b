"""Stages 1 and 2: DeepSpeedZeroOptimizer (runtime/zero/stage_1_and_2.py)."""

from __future__ import annotations

from zerocfg.memory.moments import Moment, moment, passes
from zerocfg.memory.parameters import owned_elements
from zerocfg.memory.replicated import step_extra
from zerocfg.memory.states import Rank


def stages_1_and_2(rank: Rank) -> list[Moment]:
    """Every moment of a run at which memory may be highest, in bytes of a GPU; line numbers are those of that file in DeepSpeed 0.19.8."""
    b, m, p = rank.param_width, rank.master_width, rank.shard
    resident = {"parameters": b * p * rank.shards + rank.frozen_bytes}
    if rank.offloads_optimizer:
        resident["offload_buffers"] = b * rank.parameters.largest  # temp_grad_buffer_for_gpu_offload, line 659
    else:
        resident |= {"fp32_master": m * p, "optimizer_states": rank.state_bytes}
    init = {part: size for part, size in resident.items() if part != "optimizer_states"}
    return [
        # the flat copy of the group next to its parameters, line 503; left to the CPU when the GPU has no room for it
        moment("init", "flatten parameters", {"parameters": resident["parameters"]}, step_transients=b * rank.numel),
        moment("init", "master weights", init, step_transients=0 if rank.offloads_optimizer else m * p),
        *_passes(rank, resident),
        *_step(rank, resident),
    ]


def compact(rank: Rank) -> bool:
    """Reduced gradients go straight into a flat fp32 part (line 1259); never for Muon's matrices."""
    return rank.separate_accumulation and rank.accum_width == 4 and not rank.is_muon


def owned_bytes(rank: Rank) -> tuple[int, int]:
    """Reduced gradients of one backward pass that a rank keeps on the GPU: the rank with the most, and the last rank, whose
    parameters come first in the backward pass. The buffer is made whole at its first gradient (line 2185)."""
    if compact(rank):
        return 4 * rank.shard, 4 * rank.shard
    if rank.offloads_optimizer:
        return 0, 0
    groups = [g for g in (rank.muon, rank.other) if g]
    by_rank = [sum(sizes) for sizes in zip(*(owned_elements((p.numel for p in g), rank.shards) for g in groups), strict=True)]
    return rank.param_width * max(by_rank), rank.param_width * by_rank[-1]


def buckets(rank: Rank) -> tuple[int, int]:
    """(bytes of the reduce buckets, bytes of the copies made while one of them is reduced)."""
    zero, parameters = rank.plan.zero, rank.parameters
    contiguous = zero.contiguous_gradients or rank.offloads_optimizer
    # stage 1 stages the accumulated gradient, stage 2 the model's (line 1253)
    width = rank.accum_width if rank.separate_accumulation and zero.stage == 1 else rank.param_width
    size = zero.reduce_bucket_size
    held = width * size * (2 if zero.overlap_comm else 1) if contiguous else 0
    # a parameter larger than the bucket is reduced on its own
    reduced = max(min(size, rank.numel), parameters.largest if parameters.largest > size else 0)
    cut = zero.reduce_scatter and (rank.shards > 1 or compact(rank))
    copies = width * reduced if cut or not contiguous else 0
    if rank.comm_width != width:
        copies += rank.comm_width * reduced
    if compact(rank):
        copies += 4 * parameters.largest  # the slice in fp32 before it is added
    return held, copies


def _passes(rank: Rank, resident: dict[str, int]) -> list[Moment]:
    b, n, stage = rank.param_width, rank.numel, rank.plan.zero.stage
    held, copies = buckets(rank)
    owned, owned_first = owned_bytes(rank)
    oversized = sum(p.numel for p in rank.parameters.trainable if p.numel > rank.plan.zero.reduce_bucket_size)
    kept: dict[str, int] = {}
    early = {"reduce_buffers": held}
    reducing = {"reduce_buffers": held, "gradients": owned_first}
    late = {"reduce_buffers": held, "gradients": owned}
    if stage == 1 and rank.shards > 1:
        late["gradients"] += b * oversized  # not in a bucket, and cleared only when the pass is over
    if rank.accumulates and stage == 1:
        # whole gradients until the last micro batch, and the buckets with them: nothing is reduced, so nothing releases them
        width = rank.accum_width if rank.separate_accumulation else b
        kept = {"gradients": width * n, "reduce_buffers": held}
        early = {}
        reducing = {"gradients": owned_first}
        late = {"gradients": owned - width * (n - oversized)}
    elif rank.accumulates and not (rank.offloads_optimizer and not compact(rank)):
        # the sum so far, and the new part next to it; a compact one is added to
        kept = {"gradients": owned}
        if compact(rank):
            reducing = late = early
    return passes(rank, resident, kept=kept, early=early, reducing=reducing, late=late, copies={"reduce_buffers": copies})


def _step(rank: Rank, resident: dict[str, int]) -> list[Moment]:
    if rank.offloads_optimizer:
        # stage 1's accumulated gradients are cleared with the step only
        whole = rank.param_width * rank.numel if rank.accumulates and rank.plan.zero.stage == 1 else 0
        return [moment("step", "copy weights", resident, gradients=whole, reduce_buffers=buckets(rank)[0] if whole else 0)]
    m, (owned, _) = rank.master_width, owned_bytes(rank)
    parts = [rank.part(g) for g in (rank.muon, rank.other) if g]
    part = max(parts, default=0)
    # norm: each gradient in float64 (line 2687, get_norm_dtype)
    norm = 8 * min(rank.parameters.largest, part)
    if compact(rank):
        flatten = 0  # the flat part is the optimizer's gradient
    else:
        flat = rank.param_width * part if rank.shards > 1 or len(rank.parameters.trainable) > 1 else 0
        flatten = flat + (m * part if m != rank.param_width else 0)
    gradient = 4 * rank.shard if compact(rank) else m * part
    moments = [
        moment("step", "gradient norm", resident, gradients=owned, step_transients=norm),
        moment("step", "optimizer", resident, gradients=gradient, step_transients=step_extra(rank, part)),
    ]
    updates = 0
    if rank.muon:
        # orthogonalized gradients, whole parameters, are made one by one and flattened at the end
        updates = rank.param_width * max(owned_elements((p.numel for p in rank.muon), rank.shards))
        moments.append(moment("step", "orthogonalize", resident, gradients=owned, step_transients=updates + step_extra(rank, 0)))
    moments.append(moment("step", "flatten gradients", resident, gradients=owned, step_transients=updates + flatten))
    return moments
