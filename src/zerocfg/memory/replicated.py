"""Stage 0, and stage 1 under BF16_Optimizer: full gradients on each rank."""

from __future__ import annotations

from zerocfg.memory.constants import ALLREDUCE_ELEMENTS
from zerocfg.memory.moments import Moment, moment, passes
from zerocfg.memory.states import BASIC, FUSED_16, Rank


def stage_0(rank: Rank) -> list[Moment]:
    """Plain all-reduce. fp32: the optimizer works on the weights. 16 bit: FP16_Optimizer (fp16/fused_optimizer.py) for Adam,
    FP16_UnfusedOptimizer (fp16/unfused_optimizer.py) for all others; both keep fp32 master weights."""
    n, b = rank.numel, rank.param_width
    resident = {"parameters": b * n + rank.frozen_bytes, "optimizer_states": rank.state_bytes}
    if rank.wrapper != BASIC:
        resident["fp32_master"] = 4 * n
    gradients = {"gradients": b * n}
    run = passes(rank, resident, kept=gradients) if rank.accumulates else passes(rank, resident, late=gradients)
    # whole parameters are taken until the bucket is over (engine.py:3828)
    bucket = min(n, ALLREDUCE_ELEMENTS + rank.parameters.largest)
    cast = rank.comm_width * bucket if rank.comm_width != b else 0
    run.append(moment("backward", "all-reduce", resident, gradients=b * n, reduce_buffers=b * bucket + cast))
    extra = step_extra(rank, n)
    if rank.wrapper == BASIC:
        run.append(moment("step", "optimizer", resident, gradients=b * n, step_transients=extra))
        init = moment("init", "parameters", {"parameters": resident["parameters"]})
    elif rank.wrapper == FUSED_16:
        # each gradient in fp32, then all of them flat; the 16-bit gradients go only after that (fused_optimizer.py:227)
        run.append(moment("step", "flatten gradients", resident, gradients=b * n, step_transients=8 * n))
        run.append(moment("step", "optimizer", resident, step_transients=4 * n + extra))
        init = moment("init", "optimizer", resident, step_transients=4 * n)
    else:
        run.append(moment("step", "optimizer", resident, gradients=b * n, step_transients=4 * n + extra))
        init = moment("init", "optimizer", resident, gradients=b * n, step_transients=4 * n)
    return [init, *run]


def bf16_optimizer(rank: Rank) -> list[Moment]:
    """bf16 weights with fp32 accumulation at stage 1 (bf16_optimizer.py): a flat fp32 gradient of the whole model."""
    n, b, p = rank.numel, rank.param_width, rank.shard
    padded = p * rank.shards
    resident = {
        "parameters": b * padded + rank.frozen_bytes,
        "fp32_master": 4 * p,
        "optimizer_states": rank.state_bytes,
        "gradients": 4 * padded,
    }
    low = {"gradients": b * n}
    run = passes(rank, resident, kept=low) if rank.accumulates else passes(rank, resident, late=low)
    run.append(moment("backward", "accumulate", resident, gradients=b * n, step_transients=4 * rank.parameters.largest))
    # one flat buffer: nothing to flatten, but cast to the dtype of communication
    cast = rank.comm_width * padded if rank.comm_width != 4 else 0
    run.append(moment("backward", "all-reduce", resident, gradients=b * n, reduce_buffers=cast))
    run.append(moment("step", "optimizer", resident, gradients=b * n, step_transients=step_extra(rank, p)))
    without_states = {part: size for part, size in resident.items() if part != "optimizer_states"}
    return [moment("init", "flatten parameters", without_states), *run]


def step_extra(rank: Rank, elements: int) -> int:
    """Temporaries of the optimizer's own step over `elements` elements.

    DeepSpeed's fused kernels need none. torch's Adagrad keeps a square root and an update, its foreach Adam a square root, its
    other Adam, on cpu, two. Muon orthogonalizes one matrix at a time: about four 16-bit copies.
    """
    kind, params, width = rank.plan.optimizer.type.lower(), rank.plan.optimizer.params, rank.master_width
    if kind == "adagrad":
        return width * elements * 2
    if kind in ("adam", "adamw") and "torch_adam" in params:
        return width * elements * (1 if rank.plan.hardware.is_cuda else 2)
    if rank.muon:
        return 4 * 2 * max(p.numel for p in rank.muon)
    return 0
