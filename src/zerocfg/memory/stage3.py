"""Stage 3: DeepSpeedZeroOptimizer_Stage3 (runtime/zero/stage3.py) and the coordinator of gathered parameters
(runtime/zero/partitioned_param_coordinator.py)."""

from __future__ import annotations

from dataclasses import dataclass

from zerocfg.memory.moments import Moment, moment, passes, until_first_reduce
from zerocfg.memory.replicated import step_extra
from zerocfg.memory.states import Rank
from zerocfg.traced import total


@dataclass(frozen=True, slots=True)
class Gathered:
    """Bytes of whole parameters on the GPU, beyond this rank's shards."""

    persistent: int
    """Small parameters that are never released (stage3_param_persistence_threshold)."""
    in_passes: int
    """From the forward pass until the backward pass reaches the first blocks."""
    at_first_block: int
    kept_between_passes: int
    """Of in_passes, what a later pass finds still gathered: used again within stage3_max_reuse_distance."""
    limited: bool
    """There are more parameters than may be live at once."""
    copy: int
    """The flat buffer of one all-gather next to the parameters cut out of it (AllGatherCoalescedHandle.wait)."""


def gathered(rank: Rank) -> Gathered:
    """How much is gathered once the order of the modules is known, that is from the second step on.

    Each module that runs prefetches up to stage3_prefetch_bucket_size elements more, as long as fewer than
    stage3_max_live_parameters are live (line 395, _fetch_sub_module_impl), and modules outnumber parameters: prefetching
    runs ahead until the limit or the end. On one GPU that holds the shards, a shard is the parameter and nothing is gathered
    (NoGatherHandle).
    """
    zero, b, p = rank.plan.zero, rank.param_width, rank.parameters
    threshold = zero.stage3_param_persistence_threshold
    small = total(q for q in p.entries if q.numel <= threshold)
    if rank.shards == 1 and not rank.offloads_params:
        return Gathered(0, 0, 0, b * total(p.entries), False, 0)
    large = total(p.entries) - small
    by_block = bool(zero.leaf_module_classes) or zero.find_leaf_modules
    unit = p.block_numel if by_block else p.largest_in_block
    # the parameter that goes over the limit is still gathered; what is used again within max_reuse_distance stays in any case,
    # and recomputation walks through the last blocks once more (line 604, __params_to_release)
    limit = zero.stage3_max_live_parameters + max(unit, p.largest_module)
    walks = 3 if rank.plan.activation_checkpointing.enabled else 2
    live = min(large, max(limit, zero.stage3_max_reuse_distance // walks + unit))
    again = 0
    if not zero.memory_efficient_linear and not rank.plan.activation_checkpointing.enabled:
        # torch's linear layers hold what was gathered for the forward pass; what DeepSpeed released is gathered once more beside it
        again, live = min(large - live, live), large
    first = min(large, p.block_numel + p.embedding_numel)
    group = min(large, zero.stage3_prefetch_bucket_size + unit) if zero.stage3_prefetch_bucket_size > unit else 0
    if by_block:
        group = max(group, p.block_numel)
    # once all parameters are live, no all-gather is under way
    copy = b * group if rank.shards > 1 and large > live else 0
    return Gathered(
        persistent=b * small,
        in_passes=b * (live + again),
        at_first_block=b * first,
        kept_between_passes=b * min(large, zero.stage3_max_reuse_distance // walks),
        limited=large > live,
        copy=copy,
    )


def reduce_bucket(rank: Rank) -> tuple[int, int, int]:
    """(bytes of the bucket, kept for good; bytes of copies while it is reduced; gradients that wait outside of it)."""
    zero, p, c = rank.plan.zero, rank.parameters, rank.comm_width
    size = zero.reduce_bucket_size
    bucket = c * size if zero.contiguous_gradients else 0
    fitting = total(q for q in p.trainable if q.numel <= size)
    # one flat copy, this rank's parts next to each other (coalesced_collectives.py:122)
    copies = c * min(size, fitting) if rank.shards > 1 else 0
    waiting = 0
    if p.largest > size:
        # an oversized gradient stays as it is until the next one arrives
        waiting = rank.param_width * p.largest_in_block if p.largest_in_block > size else 0
        if c != rank.param_width:
            copies = max(copies, c * p.largest)
    return bucket, copies, waiting


def stage_3(rank: Rank) -> list[Moment]:
    """Every moment of a run at which memory may be highest, in bytes of a GPU."""
    b, a, m, p = rank.param_width, rank.accum_width, rank.master_width, rank.shard
    bucket, copies, waiting = reduce_bucket(rank)
    whole = gathered(rank)
    on_gpu = rank.gpu_sub_groups
    resident = {
        "parameters": (0 if rank.offloads_params else b * p + rank.frozen_bytes),
        "fp32_master": int(m * p * on_gpu),
        "optimizer_states": int(rank.state_bytes * on_gpu),
        # with offload, sub-groups that stay on the GPU keep a gradient of the master's width there (stage3.py:1336)
        "gradients": int(m * p * on_gpu) if rank.offloads_optimizer else a * p,
        "reduce_buffers": bucket,
        "live_parameters": whole.persistent,
    }
    hpz = rank.plan.zero.zero_hpz_partition_size
    if hpz > 1 and not rank.offloads_params:
        resident["secondary_parameters"] = b * -(-total(rank.parameters.entries) // hpz)
    part = -(-rank.parameters.largest // rank.shards)
    moving = (a + m) * part if rank.offloads_optimizer else 0
    kept = {"live_parameters": whole.in_passes, "gather_buffers": whole.copy}
    early = {"gradients": waiting}
    given_back = whole.in_passes - whole.at_first_block
    late = early | {"live_parameters": -given_back}
    # while there are more parameters than may be live, each one that goes makes room for the next
    released = 0 if whole.limited else int(until_first_reduce(rank) * given_back)
    reducing = early | {"live_parameters": -released}
    transient = {"reduce_buffers": copies, "offload_buffers": moving}
    run = passes(rank, resident, kept=kept, early=early, reducing=reducing, late=late, copies=transient)
    return [*_init(rank, resident), *run, *_step(rank, resident)]


def _init(rank: Rank, resident: dict[str, int]) -> list[Moment]:
    """Under zero.Init a module is whole only until its parameters are cut; then master weights are made, each sub-group
    converted and cloned (stage3.py:1160)."""
    b, m = rank.param_width, rank.master_width
    parameters = resident["parameters"]
    largest, _ = rank.sub_groups
    clone = 0 if rank.offloads_optimizer else m * largest
    buffers = {part: size for part, size in resident.items() if part not in ("optimizer_states", "live_parameters", "secondary_parameters")}
    return [
        moment("init", "build", {"parameters": parameters}, live_parameters=b * rank.parameters.largest_module),
        # each parameter is gathered once more to hook its gradient (stage3.py:1513)
        moment("init", "gradient hooks", buffers, live_parameters=b * rank.parameters.largest),
        moment("init", "master weights", {"parameters": parameters}, fp32_master=resident["fp32_master"], step_transients=clone),
    ]


def _step(rank: Rank, resident: dict[str, int]) -> list[Moment]:
    # all parameters are released before the step, the persistent ones too (stage3.py:2879)
    resident = {part: size for part, size in resident.items() if part != "live_parameters"}
    a, m, parameters = rank.accum_width, rank.master_width, rank.parameters
    size, _ = rank.sub_groups
    if rank.offloads_optimizer:
        kept_here = size if rank.gpu_sub_groups > 0 else 0
        # the sub-groups on the GPU are stepped by torch's AdamW, which takes a square root of the second moment
        return [moment("step", "optimizer", resident, step_transients=m * kept_here)]
    flat = a * size if rank.shards > 1 or len(parameters.trainable) > 1 else 0
    flatten = flat + (m * size if m != a else 0)
    norm = 8 * -(-parameters.largest // rank.shards)
    if rank.plan.precision.dtype == "fp16":
        norm = max(norm, (a + 1) * rank.shard)  # isinf and isnan over the flat gradients (stage3.py:3012)
    muon = 0
    if rank.muon:
        bucket = min(max(rank.plan.zero.reduce_bucket_size, parameters.largest_in_block), rank.numel)
        muon = 2 * rank.comm_width * bucket + step_extra(rank, 0)  # gathered gradients and momentum, a bucket at a time
    return [
        moment("step", "gradient norm", resident, step_transients=max(norm, muon)),
        moment("step", "flatten gradients", resident, step_transients=flatten),
        moment("step", "optimizer", resident, step_transients=max(m * size, flat) + step_extra(rank, size)),
    ]
