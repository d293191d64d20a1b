"""Activation checkpointing, autotuning, compile, hybrid engine, asynchronous IO, data efficiency."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from zerocfg.deepspeed.rules import Finding, rule
from zerocfg.deepspeed.view import OPT, View
from zerocfg.diagnostics import Severity

AC = "activation_checkpointing"
SAMPLING = "data_efficiency.data_sampling"
ROUTING = "data_efficiency.data_routing"


@rule("ZC684", "contiguous activation memory without what it needs")
def contiguous_activations(view: View) -> Iterator[Finding]:
    path = f"{AC}.contiguous_memory_optimization"
    if not view.on(path):
        return
    if not view.on(f"{AC}.partition_activations"):
        yield Finding(path, "needs partition_activations", hint=view.assign(f"{AC}.partition_activations", True))
    if view.value(f"{AC}.number_checkpoints") is None:
        yield Finding(
            path, "needs number_checkpoints, the checkpointed layers of a forward pass", hint=view.assign(f"{AC}.number_checkpoints", 1)
        )


@rule("ZC685", "autotuning on: the process ends after a few steps instead of training")
def autotuning(view: View) -> Iterator[Finding]:
    if view.on("autotuning.enabled"):
        yield Finding("autotuning.enabled", "makes the engine measure and exit", hint=view.assign("autotuning.enabled", False))


@rule("ZC686", "compile settings that fall back in silence or raise")
def compile_settings(view: View) -> Iterator[Finding]:
    if view.on("compile.deepcompile"):
        yield from _deepcompile(view)
    passes = view.value("compile.passes")
    if isinstance(passes, list):
        yield from _passes(view, passes)
    if view.on("compile.autoep_non_moe"):
        yield from _around_experts(view)


def _deepcompile(view: View) -> Iterator[Finding]:
    path = "compile.deepcompile"
    off = view.assign(path, False)
    if view.accelerator != "cuda":
        yield Finding(path, f"needs CUDA; the accelerator is {view.accelerator}", hint=off)
    if view.stage == 0:
        yield Finding(path, "falls back to torch.compile at ZeRO stage 0", hint=f"{view.assign('zero_optimization.stage', 1)}, or {off}")
    if view.stage != 3:
        return
    states, activations = "compile.offload_opt_states", "compile.offload_activation"
    implied = view.optimizer_device == "cpu" and view.param_device == "cpu"
    parameters = view.on("compile.offload_parameters") or implied
    by_itself = ("offload_parameters is switched on by itself when both ZeRO offloads are cpu",) if implied else ()
    if view.on(states) and view.offloaded:
        yield Finding(
            states,
            "does not go with ZeRO's optimizer offload",
            hint=f"{view.assign(states, False)}, or {view.assign(f'{OPT}.device', 'none')}",
        )
    if view.on(activations) and (parameters or view.on(states)):
        yield Finding(
            activations, "does not go with offload_parameters or offload_opt_states", detail=by_itself, hint=view.assign(activations, False)
        )
    if view.on(states) and parameters:
        yield Finding(states, "does not go with offload_parameters", detail=by_itself, hint=view.assign(states, False))


def _passes(view: View, passes: list[object]) -> Iterator[Finding]:
    path = "compile.passes"
    if "autotp" in passes and len(set(map(str, passes))) > 1:
        yield Finding(path, "must hold autotp alone", hint=view.assign(path, ["autotp"]))
    if "autotp" in passes and view.autotp_size < 2:
        yield Finding(
            path, "falls back to torch.compile: autotp needs autotp_size above 1", hint=view.assign("tensor_parallel.autotp_size", 2)
        )
    if "autotp" in passes and view.on("tensor_parallel.tp_overlap_comm"):
        yield Finding(
            "tensor_parallel.tp_overlap_comm",
            "does not go with the autotp pass",
            hint=view.assign("tensor_parallel.tp_overlap_comm", False),
        )
    if "autosp" in passes and view.stage > 1:
        hint = view.assign("zero_optimization.stage", 1)
        yield Finding(path, f"falls back to torch.compile: autosp knows ZeRO stage 0 and 1, not {view.stage}", hint=hint)
    if "autosp" in passes and not isinstance(view.value("sequence_parallel_size"), int):
        yield Finding(path, "holds autosp, which needs sequence_parallel_size", hint=view.assign("sequence_parallel_size", 2))


def _around_experts(view: View) -> Iterator[Finding]:
    path = "compile.autoep_non_moe"
    against = {
        "DeepCompile": view.on("compile.deepcompile"),
        "DeepEP": view.value("expert_parallel.comm_backend") == "deepep",
        "AutoTP": view.autotp_size > 1,
        "ZeRO stage 3": view.stage == 3,
        "offload": view.optimizer_device != "none" or view.param_device != "none",
        "sequence parallelism": isinstance(view.value("sequence_parallel_size"), int) and view.number("sequence_parallel_size") > 1,
    }
    found = [name for name, on in against.items() if on]
    if found:
        yield Finding(path, f"does not go with {', '.join(found)}", hint=view.assign(path, False))


@rule("ZC687", "CUDA graphs of the hybrid engine where it switches them off")
def hybrid_graphs(view: View) -> Iterator[Finding]:
    path = "hybrid_engine.enable_cuda_graph"
    if not (view.on(path) and view.on("hybrid_engine.enabled")) or view.accelerator != "cuda":
        return
    reasons = {
        "ZeRO stage 3": view.stage == 3,
        "release_inference_cache": view.on("hybrid_engine.release_inference_cache"),
        "inference_tp_size above 1": view.number("hybrid_engine.inference_tp_size") > 1,
    }
    found = [name for name, on in reasons.items() if on]
    if found:
        yield Finding(path, f"is switched off: not with {', '.join(found)}", hint=view.assign(path, False))


@rule("ZC688", "GPUDirect Storage without CUDA")
def direct_storage(view: View) -> Iterator[Finding]:
    if view.on("aio.use_gds") and view.accelerator != "cuda":
        yield Finding("aio.use_gds", f"needs CUDA; the accelerator is {view.accelerator}", hint=view.assign("aio.use_gds", False))


@rule("ZC689", "data efficiency that lacks what it needs, or is there and off")
def data_efficiency(view: View) -> Iterator[Finding]:
    yield from _curriculum(view)
    batching = f"{SAMPLING}.dynamic_batching"
    if view.on(f"{batching}.enabled") and view.value(f"{batching}.max_tokens") is None:
        yield Finding(f"{batching}.max_tokens", "is missing: dynamic batching needs it", hint=view.assign(f"{batching}.max_tokens", 8192))
    schedule = f"{ROUTING}.random_ltd.layer_token_lr_schedule.enabled"
    if view.on(schedule):
        yield Finding(schedule, "raises: it is not implemented", hint=view.assign(schedule, False))


SCHEDULES = {
    "fixed_discrete": ("difficulty", "max_step"),
    "fixed_root": ("total_curriculum_step", "difficulty_step", "root_degree"),
    "fixed_linear": ("total_curriculum_step", "difficulty_step"),
    "custom": (),
}


def _curriculum(view: View) -> Iterator[Finding]:
    path = f"{SAMPLING}.curriculum_learning"
    section = view.raw(path)
    if not isinstance(section, Mapping):
        return
    if not view.on(f"{path}.enabled"):
        if section.get("curriculum_metrics"):
            yield Finding(
                path,
                "is there but off",
                hint=f"{view.assign(f'{path}.enabled', True)}, or remove {view.full(path)}",
                severity=Severity.WARNING,
            )
        return
    metrics = section.get("curriculum_metrics")
    if not isinstance(metrics, Mapping):
        yield Finding(f"{path}.curriculum_metrics", "is missing: a curriculum needs at least one metric")
        return
    for name, metric in metrics.items():
        if isinstance(metric, Mapping):
            yield from _metric(view, f"{path}.curriculum_metrics.{name}", metric)


def _metric(view: View, path: str, metric: Mapping[str, object]) -> Iterator[Finding]:
    for name in ("min_difficulty", "max_difficulty", "schedule_type"):
        if name not in metric:
            yield Finding(f"{path}.{name}", "is missing")
    wanted = SCHEDULES.get(str(metric.get("schedule_type")), ())
    config = metric.get("schedule_config")
    numbers = config if isinstance(config, Mapping) else {}
    for name in wanted:
        if name not in numbers:
            yield Finding(f"{path}.schedule_config.{name}", f"is missing: {metric.get('schedule_type')} needs it")
    levels, steps = numbers.get("difficulty"), numbers.get("max_step")
    if "max_step" in wanted and isinstance(levels, list) and isinstance(steps, list) and len(levels) != len(steps) + 1:
        text = "must be one shorter than difficulty"
        yield Finding(f"{path}.schedule_config.max_step", text, detail=(f"{len(steps)} steps, {len(levels)} difficulties",))
    grain = numbers.get("difficulty_step")
    if isinstance(grain, int) and grain % 8:
        hint = view.assign(f"{path}.schedule_config.difficulty_step", -(-grain // 8) * 8)
        yield Finding(
            f"{path}.schedule_config.difficulty_step", "should be a multiple of 8 for tensor cores", hint=hint, severity=Severity.WARNING
        )
