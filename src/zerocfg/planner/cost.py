"""Time of one optimizer step: compute or host, exposed communication, the step itself, offload."""

from __future__ import annotations

from dataclasses import dataclass

from zerocfg.memory.estimate import rank_of
from zerocfg.memory.stage3 import gathered
from zerocfg.memory.states import Rank
from zerocfg.plan import Plan
from zerocfg.planner.rates import Rates
from zerocfg.planner.work import Work, work_of
from zerocfg.traced import OUTSIDE, total

CONTENTION = 0.3
"""Share of a hidden collective's time by which the kernels beside it slow down: NCCL takes some of the multiprocessors and of
the memory bandwidth."""
STEP_LAUNCHES = 13
"""Operators that the step launches for each parameter that a rank owns: norm in float64, test for overflow, flatten, unscale.
They end in `.item()`, so that host and GPU wait for each other (stage_1_and_2.py, fp16/fused_optimizer.py)."""
GRADIENT_BYTES = 42
"""Through memory for each owned element before the update: norm 18, overflow 6, flatten and cast 10, unscale 8."""
UPDATE_BYTES = {2: 28, 1: 20, 0: 12}
"""By moments, fp32: weight, gradient and moments read, weight and moments written."""
COPY_BYTES = 6
"""fp32 master to 16-bit weight."""
GRADIENT_COPY_BYTES = 6
"""For each element of the gradient: into the bucket, out of it."""

TERMS = {
    "compute": "GPU compute",
    "host": "host: launches and hooks",
    "communication": "exposed communication",
    "optimizer": "optimizer step",
    "offload": "offload",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """Seconds of one optimizer step."""

    compute: float
    host: float
    """What the host takes beyond the GPU's own time in forward and backward passes."""
    communication: float
    """What no compute hides."""
    optimizer: float
    offload: float
    recompute: float
    """The part of `compute` that activation checkpointing adds."""
    tokens: float
    """Of one rank, an optimizer step."""
    model_flops: float

    @property
    def seconds(self) -> float:
        return self.compute + self.host + self.communication + self.optimizer + self.offload

    @property
    def limiting(self) -> str:
        """The largest term. A host that is behind is what forward and backward passes wait for, all along."""
        terms = {term: float(getattr(self, term)) for term in TERMS}
        if terms["host"] > 0:
            terms["host"] += terms.pop("compute")
        return max(terms, key=lambda term: terms[term])

    def tokens_per_s_per_gpu(self, gpus_sharing: int = 1) -> float:
        return self.tokens / self.seconds / gpus_sharing

    def mfu(self, peak_tflops: float) -> float:
        return self.model_flops / self.seconds / (peak_tflops * 1e12) if peak_tflops else 0.0


def cost_of(plan: Plan, rates: Rates, rank: Rank | None = None) -> Cost:
    """Predicted time of a plan whose model is described or profiled (ModelNotDescribed otherwise)."""
    rank = rank or rank_of(plan)
    work = work_of(rank)
    steps = plan.batch.gradient_accumulation_steps
    gpu = _gpu_seconds(rank, work, rates)
    host = _host_seconds(rank, work, rates)
    hidden, exposed_each, exposed_once = _communication(rank, rates, gpu)
    # a collective beside compute slows it; a host that is behind leaves the GPU idle, which hides the collective
    busy = gpu + CONTENTION * min(hidden, gpu)
    beyond = max(0.0, hidden - gpu) * (1 - CONTENTION)
    idle = max(0.0, host - busy - exposed_each)
    optimizer, offload = _step(rank, rates, steps * gpu)
    return Cost(
        compute=steps * gpu,
        host=steps * idle,
        communication=steps * (busy - gpu + beyond + exposed_each) + exposed_once,
        optimizer=optimizer,
        offload=offload,
        recompute=steps * gpu * work.recompute_share,
        tokens=steps * work.tokens,
        model_flops=steps * work.model_flops,
    )


def _gpu_seconds(rank: Rank, work: Work, rates: Rates) -> float:
    precision, memory = rank.plan.precision, rates.memory_gbps * 1e9
    matmul = rates.matmul(precision.dtype, tf32=precision.tf32)
    attention = rates.attention_tflops * 1e12 if precision.dtype != "fp32" else 0.6 * matmul
    seconds = work.matmul_flops / matmul + work.attention_flops / attention + work.traffic_bytes / memory
    seconds += work.launches * rates.kernel_us * 1e-6 / 2  # half of the operators run long enough to hide their ramp
    if rank.plan.zero.stage in (1, 2):
        seconds += GRADIENT_COPY_BYTES * rank.numel / memory
    options, trace = rank.plan.activation_checkpointing, rank.trace
    if options.enabled and options.cpu_checkpointing:
        moved = rank.micro * trace.num_blocks * trace.block_input
        seconds += moved / (rates.d2h_gbps * 1e9) + moved / (rates.h2d_gbps * 1e9)
    return seconds


def modules_with_hooks(rank: Rank) -> int:
    """Modules that stage 3 fetches: those with parameters of their own, a leaf module once."""
    entries = rank.parameters.entries
    if rank.plan.zero.leaf_module_classes or rank.plan.zero.find_leaf_modules:
        return rank.parameters.num_blocks + len({p.module for p in entries if p.block == OUTSIDE})
    return len({p.module or p.name for p in entries})


def _host_seconds(rank: Rank, work: Work, rates: Rates) -> float:
    zero, entries, trainable = rank.plan.zero, rank.parameters.entries, rank.parameters.trainable
    us = work.launches * rates.launch_us
    if zero.stage == 3:
        large = sum(p.numel > zero.stage3_param_persistence_threshold for p in entries)
        passes = _passes(rank)
        us += modules_with_hooks(rank) * rates.stage3_module_us * passes / 2
        us += large * _gathers(rank) * rates.stage3_gather_us + len(trainable) * rates.stage3_gradient_us
        us += _reductions(rank) * rates.stage3_reduce_us
        if zero.memory_efficient_linear:
            us += sum(p.is_matrix and p.block != OUTSIDE for p in entries) * rates.stage3_linear_us * passes / 2
    elif zero.stage:
        us += len(rank.parameters.trainable) * rates.bucket_us
    return us * 1e-6


def _reductions(rank: Rank) -> int:
    """Of a backward pass, one a bucket; a parameter larger than that is reduced alone."""
    return min(-(-rank.numel // max(1, rank.plan.zero.reduce_bucket_size)), len(rank.parameters.trainable))


def _passes(rank: Rank) -> int:
    return 3 if rank.plan.activation_checkpointing.enabled else 2


def _gathers(rank: Rank) -> float:
    """Times that a micro batch gathers a parameter of stage 3: once, and again in each later pass that does not find it still there."""
    whole = gathered(rank)
    large = rank.param_width * total(p for p in rank.parameters.entries if p.numel > rank.plan.zero.stage3_param_persistence_threshold)
    kept = min(1.0, whole.kept_between_passes / large) if large else 1.0
    return 1 + (_passes(rank) - 1) * (1 - kept)


def _communication(rank: Rank, rates: Rates, gpu: float) -> tuple[float, float, float]:
    """Seconds of (collectives that run beside compute, a micro batch; those that nothing hides, a micro batch; the same, once a
    step)."""
    plan, zero = rank.plan, rank.plan.zero
    shards, b, c = rank.shards, rank.param_width, rank.comm_width
    hidden = exposed = once = 0.0
    world = plan.topology.data_parallel_size * plan.topology.sequence_parallel_degree
    if plan.topology.tensor_parallel_degree > 1 or plan.topology.sequence_parallel_degree > 1:
        exposed += _model_parallel(rank, rates)
    steps = plan.batch.gradient_accumulation_steps
    ring = (world - 1) / world
    n = rank.numel
    if world == 1 and not rank.offloads_params:
        return hidden, exposed, once
    if zero.stage == 0:
        # flattened, reduced and copied back after the backward pass of the last micro batch
        calls = max(1.0, n / 5e8)
        copies = 4 * c * n / (rates.memory_gbps * 1e9)
        return hidden, exposed, rates.all_reduce.seconds(2 * ring * c * n, calls) + copies
    if zero.stage in (1, 2):
        reductions = _reductions(rank)
        reduce = rates.all_reduce.seconds(2 * ring * c * n, reductions)
        last = rates.all_reduce.seconds(2 * ring * c * n / max(1, reductions))
        if not zero.overlap_comm:
            last = reduce
        # the last bucket has no compute left beside it; stage 1 reduces in the last micro batch only
        each = steps if zero.stage == 2 else 1
        hidden, exposed = (reduce - last) * each / steps, exposed + last * each / steps
        once = rates.all_gather.seconds(ring * b * n, max(1.0, n / max(1, zero.allgather_bucket_size)))
        return hidden, exposed, once
    large = [p for p in rank.parameters.entries if p.numel > zero.stage3_param_persistence_threshold]
    size, leaf = b * total(large), bool(zero.leaf_module_classes or zero.find_leaf_modules)
    calls = modules_with_hooks(rank) if leaf else len({p.module for p in large})
    width = 0.5 if zero.zero_quantized_weights else 1.0
    forward = rates.all_gather.seconds(ring * size * width, calls)
    backward = forward * (_gathers(rank) - 1)
    if 1 < zero.zero_hpz_partition_size < shards:
        hpz = zero.zero_hpz_partition_size
        backward = rates.inside.seconds((hpz - 1) / hpz * size * width, calls) * (_gathers(rank) - 1)
    unit = rank.parameters.block_numel if leaf else rank.parameters.largest_in_block
    # at least one parameter more is always fetched ahead, as long as stage3_max_live_parameters has room for it
    ahead = min(1.0, max(zero.stage3_prefetch_bucket_size, rank.parameters.largest_in_block) / max(1, unit))
    ahead = min(ahead, max(0.0, zero.stage3_max_live_parameters / max(1, unit) - 1))
    reduce = rates.reduce_scatter.seconds(ring * c * n * (0.25 if zero.zero_quantized_gradients else 1), _reductions(rank))
    gathers = forward + backward
    if rank.offloads_params:
        # shards come over PCIe for each pass
        gathers += 2 * b * rank.shard / (rates.h2d_gbps * 1e9)
    beside = reduce if zero.overlap_comm else 0.0
    return beside + ahead * gathers, exposed + reduce - beside + (1 - ahead) * gathers, once


def _model_parallel(rank: Rank, rates: Rates) -> float:
    """Tensor parallelism: four all-reduces of the residual stream a block. Ulysses: four all-to-alls, twice."""
    topology, layers = rank.plan.topology, rank.trace.num_blocks
    tp, sp = topology.tensor_parallel_degree, topology.sequence_parallel_degree
    size = rank.micro * rank.trace.block_input
    if tp > 1:
        return layers * 4 * rates.all_reduce.seconds(2 * (tp - 1) / tp * size)
    return layers * 8 * rates.all_gather.seconds((sp - 1) / sp * size)


def _step(rank: Rank, rates: Rates, compute: float) -> tuple[float, float]:
    """Seconds of (the update on the GPU with what leads to it, offload that nothing hides)."""
    plan = rank.plan
    memory = rates.memory_gbps * 1e9
    owned = rank.shard if plan.zero.stage else rank.numel
    own_parameters = len(rank.parameters.trainable) / (rank.shards if plan.zero.stage in (1, 2) else 1)
    host = own_parameters * STEP_LAUNCHES * rates.launch_us * 1e-6
    if plan.zero.stage == 3:
        persistent = sum(p.numel <= plan.zero.stage3_param_persistence_threshold for p in rank.parameters.entries)
        host += persistent * rates.stage3_persistent_us * 1e-6
    wide = rank.master_width / 4
    on_gpu = rank.gpu_sub_groups if plan.zero.stage == 3 else float(not rank.offloads_optimizer)
    traffic = GRADIENT_BYTES + UPDATE_BYTES[min(2, rank.moments)] * wide + (COPY_BYTES if rank.param_width == 2 else 0)
    seconds = host + on_gpu * owned * traffic / memory
    if not rank.offloads_optimizer:
        return seconds, 0.0
    moved = owned * (1 - on_gpu)
    # gradients leave during the backward pass; the weights come back when the CPU is done
    leaving = max(0.0, _gradients_over_pcie(rank, rates) * moved - compute / 2)
    offload = leaving + moved / rates.cpu_adam + rank.param_width * moved / (rates.h2d_gbps * 1e9)
    if plan.offload.optimizer == "nvme":
        # master weights and moments are read and written each step, by all ranks of the node
        offload += 2 * (1 + rank.moments) * 4 * moved * plan.topology.nproc_per_node / (rates.nvme_gbps * 1e9)
    if plan.offload.param == "nvme":
        offload += 2 * rank.param_width * rank.shard * plan.topology.nproc_per_node / (rates.nvme_gbps * 1e9)
    return seconds, offload


def _gradients_over_pcie(rank: Rank, rates: Rates) -> float:
    """Seconds an offloaded element and step. Each micro batch fetches what it adds to and sends the sum back, stage 3 even the first one
    (stage3.py:2024; stage_1_and_2.py:1809, with accumulation only); the last sends fp32 as well."""
    steps = rank.plan.batch.gradient_accumulation_steps
    down, up = (steps, steps) if rank.plan.zero.stage == 3 else (steps, steps - 1) if steps > 1 else (0, 0)
    return (down * rank.accum_width + rank.master_width) / (rates.d2h_gbps * 1e9) + up * rank.accum_width / (rates.h2d_gbps * 1e9)
