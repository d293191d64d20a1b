from __future__ import annotations

from collections.abc import Iterator

from zerocfg.diagnostics import Diagnostic, Severity
from zerocfg.plan import Plan
from zerocfg.units import counted

_STAGE_3_ONLY = (
    "stage3_prefetch_bucket_size",
    "stage3_param_persistence_threshold",
    "stage3_max_live_parameters",
    "stage3_max_reuse_distance",
    "sub_group_size",
)
_STAGES_1_AND_UP = {
    "overlap_comm": (1, 2, 3),
    "contiguous_gradients": (1, 2, 3),
    "reduce_scatter": (1, 2, 3),
    "reduce_bucket_size": (1, 2, 3),
    "allgather_bucket_size": (1, 2),
}


def _off(path: str, value: object) -> str:
    """The override that takes a value back, whether an override or the group's option wrote it."""
    return f"{path}={'false' if isinstance(value, bool) else 'null'}"


def stage_3_values(plan: Plan, asked: frozenset[str]) -> Iterator[Diagnostic]:
    """ZC306: asked for, but read at stage 3 only; DeepSpeed ignores them below in silence."""
    stage, zero = plan.zero.stage, plan.zero
    if stage == 3:
        return
    named = [name for name in _STAGE_3_ONLY if f"zero.{name}" in asked]
    named += [
        name
        for name in ("zero_quantized_weights", "zero_quantized_gradients", "stage3_gather_16bit_weights_on_model_save")
        if getattr(zero, name)
    ]
    named += ["zero_hpz_partition_size"] if zero.zero_hpz_partition_size != 1 else []
    named += ["leaf_module_classes"] if zero.leaf_module_classes else []
    for name in named:
        path, value = f"parallelism.{name}", getattr(zero, name)
        yield Diagnostic(
            code="ZC306",
            path=path,
            message=f"{path}={value} has no effect at stage {stage}: only stage 3 reads it",
            hint=f"parallelism=zero3, or {_off(path, value)}",
        )


def stages_1_2_values(plan: Plan, asked: frozenset[str]) -> Iterator[Diagnostic]:
    """ZC311: asked for, but without effect at this stage."""
    stage, zero = plan.zero.stage, plan.zero
    if zero.round_robin_gradients and stage not in (1, 2):
        yield Diagnostic(
            code="ZC311",
            path="parallelism.round_robin_gradients",
            message=f"parallelism.round_robin_gradients=true has no effect at stage {stage}: only stages 1 and 2 read it",
            hint="parallelism.round_robin_gradients=false",
        )
    for name, stages in _STAGES_1_AND_UP.items():
        if f"zero.{name}" in asked and getattr(zero, name) and stage not in stages:
            path = f"parallelism.{name}"
            yield Diagnostic(
                code="ZC311",
                path=path,
                message=f"{path}={getattr(zero, name)} has no effect at stage {stage}",
                hint=f"{path}=null, or a stage that reads it: {', '.join(map(str, stages))}",
            )


def hpz_divides(plan: Plan, _: frozenset[str]) -> Iterator[Diagnostic]:
    """ZC307: hpZ groups must tile the world (utils/groups.py:944)."""
    hpz, world = plan.zero.zero_hpz_partition_size, plan.topology.world_size
    if plan.zero.stage == 3 and (hpz < 1 or world % min(hpz, world)):
        yield Diagnostic(
            code="ZC307",
            path="parallelism.zero_hpz_partition_size",
            message=f"parallelism.zero_hpz_partition_size={hpz} does not divide the world of {counted(world, 'rank')}",
            detail=(f"{world} / {hpz} = {world / hpz:.4g}" if hpz else "1 is off",),
            hint=f"parallelism.zero_hpz_partition_size={plan.topology.nproc_per_node}",
        )


def zeropp_without_gain(plan: Plan, _: frozenset[str]) -> Iterator[Diagnostic]:
    """ZC309: ZeRO++ saves traffic between nodes; on one node qgZ does nothing (stage3.py:1925) and hpZ costs memory."""
    zero, topology = plan.zero, plan.topology
    if zero.stage != 3:
        return
    if zero.zero_quantized_gradients and topology.num_nodes == 1:
        yield Diagnostic(
            code="ZC309",
            severity=Severity.WARNING,
            path="parallelism.zero_quantized_gradients",
            message="parallelism.zero_quantized_gradients=true has no effect on one node: it quantizes traffic between nodes",
            hint="parallelism.zero_quantized_gradients=false, or hardware.num_nodes=2 or more",
        )
    if zero.zero_hpz_partition_size >= topology.world_size > 1:
        # the fewest nodes that hold more than one group
        nodes = 2 * zero.zero_hpz_partition_size / topology.nproc_per_node
        yield Diagnostic(
            code="ZC309",
            severity=Severity.WARNING,
            path="parallelism.zero_hpz_partition_size",
            message=f"parallelism.zero_hpz_partition_size={zero.zero_hpz_partition_size} covers the whole world of {topology.world_size}",
            detail=("a second shard of all parameters would be kept for nothing",),
            hint="parallelism.zero_hpz_partition_size=null"
            + (f", or hardware.num_nodes={nodes:.0f} or more" if nodes.is_integer() else ""),
        )


def zeropp_with_tensor_parallel(plan: Plan, _: frozenset[str]) -> Iterator[Diagnostic]:
    """ZC318: hpZ and qgZ cut the whole world into groups of neighbours, and tensor-parallel ranks are neighbours
    (utils/groups.py:738, 925): weights that belong to different shards would be gathered as one."""
    zero, tp = plan.zero, plan.topology.tensor_parallel_degree
    for name, on in (
        ("zero_hpz_partition_size", zero.zero_hpz_partition_size > 1),
        ("zero_quantized_gradients", zero.zero_quantized_gradients),
    ):
        if zero.stage == 3 and tp > 1 and on:
            path = f"parallelism.{name}"
            yield Diagnostic(
                code="ZC318",
                path=path,
                message=f"{path}={getattr(zero, name)} groups ranks without regard to parallelism.tensor_parallel_degree={tp}",
                hint=f"parallelism.tensor_parallel_degree=1, or {_off(path, getattr(zero, name))}",
            )


def quantized_gradients_need_reduce_scatter(plan: Plan, _: frozenset[str]) -> Iterator[Diagnostic]:
    """ZC319 (stage3.py:389)."""
    if plan.zero.stage == 3 and plan.zero.zero_quantized_gradients and not plan.zero.reduce_scatter and plan.optimizer.type != "Muon":
        yield Diagnostic(
            code="ZC319",
            path="parallelism.reduce_scatter",
            message="parallelism.reduce_scatter=false cannot be used with parallelism.zero_quantized_gradients=true",
            hint="parallelism.reduce_scatter=true",
        )


def quantized_weights_dtype(plan: Plan, _: frozenset[str]) -> Iterator[Diagnostic]:
    """ZC310: qwZ and qgZ run CUDA kernels (partition_parameters.py:863)."""
    for name in ("zero_quantized_weights", "zero_quantized_gradients"):
        if getattr(plan.zero, name) and not plan.hardware.is_cuda:
            path = f"parallelism.{name}"
            yield Diagnostic(
                code="ZC310", path=path, message=f"{path}=true needs cuda: its quantizer is a CUDA kernel", hint=f"{path}=false"
            )


CHECKS = (
    stage_3_values,
    stages_1_2_values,
    hpz_divides,
    zeropp_without_gain,
    zeropp_with_tensor_parallel,
    quantized_gradients_need_reduce_scatter,
    quantized_weights_dtype,
)
