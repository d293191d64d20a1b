"""tensor_parallel (AutoTP) and expert_parallel (AutoEP), alone and folded onto each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from zerocfg.deepspeed.rules import Finding, rule
from zerocfg.deepspeed.view import View
from zerocfg.diagnostics import Severity

TP = "tensor_parallel"
EP = "expert_parallel"


def divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]


@rule("ZC681", "AutoTP sizes or options that do not fit")
def autotp(view: View) -> Iterator[Finding]:
    size = view.autotp_size
    if size > 1 and view.world_size is not None and view.world_size % size:
        yield Finding(
            f"{TP}.autotp_size",
            f"does not divide the world size {view.world_size}",
            hint=" or ".join(view.assign(f"{TP}.autotp_size", n) for n in divisors(view.world_size)[1:5]),
        )
    inner = int(view.number(f"{TP}.tp.tp_size"))
    if size > 1 and inner not in (1, size):
        yield Finding(f"{TP}.tp.tp_size", f"must be 1 or autotp_size={size}", hint=view.assign(f"{TP}.tp.tp_size", size))
    if size > 1 and view.value(f"{TP}.vocab_parallel_ce_backend") == "liger" and view.value(f"{TP}.vocab_parallel_lm_head") is False:
        path = f"{TP}.vocab_parallel_ce_backend"
        yield Finding(
            path, "needs a vocabulary-parallel head, which is switched off", hint=view.assign(f"{TP}.vocab_parallel_lm_head", True)
        )
    yield from _shapes(view)
    sequence = view.value("sequence_parallel_size")
    if size > 1 and isinstance(sequence, int) and sequence > 1 and view.on(f"{EP}.enabled"):
        yield Finding("sequence_parallel_size", "does not go with AutoTP and AutoEP", hint=view.assign(f"{TP}.autotp_size", 1))


def _shapes(view: View) -> Iterator[Finding]:
    """partition_config.layer_specs: what a logical shape may be (deepspeed/module_inject/autotp_config.py)."""
    specs = view.value(f"{TP}.partition_config.layer_specs")
    for index, spec in enumerate(specs if isinstance(specs, list | tuple) else ()):
        shape = spec.get("shape") if isinstance(spec, Mapping) else None
        if shape is None:
            continue
        path = f"{TP}.partition_config.layer_specs.{index}.shape"
        if not isinstance(shape, list | tuple):
            continue  # its type is reported by another rule
        dimension = spec.get("partition_dim")
        if not isinstance(dimension, int):
            dimension = 0 if str(spec.get("partition_type", "column")).lower() == "column" else 1
        problem = shape_problem(shape, dimension)
        if problem:
            yield Finding(path, problem, hint=view.assign(path, [2, -1]) + ", two equal parts")


def shape_problem(shape: list[object] | tuple[object, ...], dimension: int) -> str:
    """What is wrong with a logical shape; empty when nothing is."""
    if not 0 <= dimension < len(shape):
        return f"has no dimension {dimension}"
    for place, part in enumerate(shape):
        if isinstance(part, list | tuple):
            if place != dimension:
                return f"may be nested only at partition_dim={dimension}, not at {place}"
            if not part or not all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in part):
                return "must hold whole numbers above 0 in its nested list"
        elif not isinstance(part, int) or isinstance(part, bool) or part == 0 or part < -1:
            return "must hold whole numbers above 0, or -1"
    return ""


@rule("ZC682", "an AutoEP configuration that DeepSpeed refuses")
def autoep(view: View) -> Iterator[Finding]:
    if not view.on(f"{EP}.enabled"):
        return
    experts, tensor = int(view.number(f"{EP}.autoep_size")), max(1, view.autotp_size)
    path = f"{EP}.autoep_size"
    if view.world_size is not None and view.world_size % experts:
        yield Finding(
            path,
            f"does not divide the ranks of a pipeline stage, at most {view.world_size}",
            hint=" or ".join(view.assign(path, n) for n in divisors(view.world_size)[1:5]),
        )
    yield from _kernels(view, experts)
    if tensor > 1:
        yield from _folded(view, experts, tensor)
    if view.stage == 3:
        yield from _stage_three(view)


def _kernels(view: View, experts: int) -> Iterator[Finding]:
    backend = view.value(f"{EP}.comm_backend")
    if view.value(f"{EP}.gate_up_impl") == "fused" and not view.on(f"{EP}.use_grouped_mm"):
        yield Finding(f"{EP}.gate_up_impl", "needs use_grouped_mm", hint=view.assign(f"{EP}.use_grouped_mm", True))
    if view.value(f"{EP}.row_weighting_impl") == "fused" and (backend != "deepep" or experts == 1):
        yield Finding(
            f"{EP}.row_weighting_impl",
            "runs only inside DeepEP",
            detail=(f"comm_backend is {backend}, autoep_size is {experts}",),
            hint=view.assign(f"{EP}.row_weighting_impl", "auto"),
        )
    if backend == "deepep" and view.number(f"{EP}.comm_max_tokens_per_rank") == 0:
        micro = view.number("train_micro_batch_size_per_gpu")
        detail = (f"micro batch {micro:g} x the longest padded sequence",) if micro else ()
        yield Finding(
            f"{EP}.comm_max_tokens_per_rank", "must be greater than 0 with DeepEP", detail=detail, hint="tokens a rank routes at most"
        )
    if view.value(f"{EP}.combine_impl") == "fused_weighted_sum" and (view.autotp_size > 1 or (backend == "deepep" and experts > 1)):
        yield Finding(f"{EP}.combine_impl", "does not go with AutoTP or with DeepEP", hint=view.assign(f"{EP}.combine_impl", "auto"))
    groups, limited = view.value(f"{EP}.num_expert_groups"), view.value(f"{EP}.num_limited_groups")
    if isinstance(groups, int) and isinstance(limited, int) and limited > groups:
        yield Finding(
            f"{EP}.num_limited_groups", f"must be at most num_expert_groups={groups}", hint=view.assign(f"{EP}.num_limited_groups", groups)
        )
    for name in (
        "router_pattern",
        "expert_pattern",
        "shared_experts_pattern",
        "shared_experts_gate_pattern",
        "expert_w1",
        "expert_w2",
        "expert_w3",
    ):
        value = view.value(f"{EP}.{name}")
        if isinstance(value, str) and (not value or "." in value):
            yield Finding(f"{EP}.{name}", "must be the name of an attribute, without dots")


def _folded(view: View, experts: int, tensor: int) -> Iterator[Finding]:
    where = f"with AutoTP ({view.full(f'{TP}.autotp_size')}={tensor})"
    alone = view.assign(f"{TP}.autotp_size", 1)
    if experts == 1:
        yield Finding(f"{EP}.autoep_size", f"must be above 1 {where}", hint=alone)
    for path in ("compile.deepcompile", "use_data_before_expert_parallelism", f"{EP}.async_split_plan"):
        if view.on(path):
            yield Finding(path, f"does not go {where}", hint=f"{view.assign(path, False)}, or {alone}")
    if view.optimizer_device != "none" or (view.param_device != "none" and view.stage == 3):
        yield Finding(f"{EP}.enabled", f"does not go with offload {where}", hint=alone)
    presets = view.value(f"{TP}.preset_model"), view.value(f"{EP}.preset_model")
    if None not in presets and presets[0] != presets[1]:
        yield Finding(
            f"{EP}.preset_model", f"must be the preset of tensor_parallel, {presets[0]}", hint=view.assign(f"{EP}.preset_model", presets[0])
        )


def _stage_three(view: View) -> Iterator[Finding]:
    for path, fit in (("zero_optimization.zero_quantized_gradients", 0), ("zero_optimization.zero_hpz_partition_size", 1)):
        if view.number(path) > fit or view.value(path) is True:
            yield Finding(path, "does not go with AutoEP at ZeRO stage 3", hint=view.assign(path, False if fit == 0 else 1))
    sequence = view.value("sequence_parallel_size")
    if isinstance(sequence, int) and sequence > 1:
        yield Finding("sequence_parallel_size", "does not go with AutoEP at ZeRO stage 3", hint=view.assign("sequence_parallel_size", 1))


@rule("ZC683", "pipeline settings that do not go with ZeRO 2 and 3 or with timers")
def pipeline(view: View) -> Iterator[Finding]:
    if not isinstance(view.raw("pipeline"), Mapping):
        return
    if view.stage >= 2:
        yield Finding(
            "zero_optimization.stage",
            "does not go with a PipelineModule, which the section pipeline is for",
            hint=f"{view.assign('zero_optimization.stage', 1)}, or remove {view.full('pipeline')}",
            severity=Severity.WARNING,
        )
    for path in ("wall_clock_breakdown", "flops_profiler.enabled"):
        if view.on(path):
            yield Finding(
                path,
                "stops a pipeline of two or more stages at the first backward",
                detail=("the timer bwd_microstep is started twice",),
                hint=view.assign(path, False),
                severity=Severity.WARNING,
            )
