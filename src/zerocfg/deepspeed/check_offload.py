"""Offload, ZenFlow and SuperOffload: who may be offloaded where, at which stage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from zerocfg.deepspeed import keys
from zerocfg.deepspeed.rules import Finding, rule
from zerocfg.deepspeed.view import OPT, PAR, View

ZEN = "zero_optimization.zenflow"
STAGE = "zero_optimization.stage"


@rule("ZC632", "parameter offload below ZeRO stage 3; ignored in silence")
def param_offload_stage(view: View) -> Iterator[Finding]:
    if view.param_device != "none" and view.stage < 3:
        path = f"{PAR}.device" if view.has(f"{PAR}.device") else "zero_optimization.cpu_offload_param"
        yield Finding(
            path,
            f"is ignored in silence at ZeRO stage {view.stage}",
            detail=("only stage 3 partitions parameters, so only stage 3 can offload them",),
            hint=f"{view.assign(STAGE, 3)}, or {view.assign(f'{PAR}.device', 'none')}",
        )


@rule("ZC633", "optimizer offload to NVMe below ZeRO stage 3; the states stay in CPU memory")
def nvme_stage(view: View) -> Iterator[Finding]:
    if view.optimizer_device == "nvme" and view.stage in (1, 2):
        yield Finding(
            f"{OPT}.device",
            f"keeps the states in CPU memory at ZeRO stage {view.stage}",
            detail=("stages 1 and 2 know only CPU offload; nvme_path and the buffers are not used",),
            hint=f"{view.assign(f'{OPT}.device', 'cpu')}, or {view.assign(STAGE, 3)}",
        )


@rule("ZC634", "optimizer offload at ZeRO stage 0; training fails at the first step")
def offload_without_zero(view: View) -> Iterator[Finding]:
    if view.offloaded and view.stage == 0:
        path = f"{OPT}.device" if view.has(f"{OPT}.device") else "zero_optimization.cpu_offload"
        yield Finding(
            path,
            "needs ZeRO: at stage 0 DeepSpeed builds its CPU optimizer for parameters on the GPU",
            detail=("the first step raises: CPUAdam param is on cuda and must be cpu",),
            hint=f"{view.assign(STAGE, 2)}, or {view.assign(f'{OPT}.device', 'none')}",
        )


@rule("ZC635", "offload to NVMe without nvme_path")
def nvme_path(view: View) -> Iterator[Finding]:
    if view.stage != 3:
        return
    for section, device in ((OPT, view.optimizer_device), (PAR, view.param_device)):
        if device == "nvme" and view.value(f"{section}.nvme_path") is None:
            yield Finding(
                f"{section}.nvme_path",
                "is missing: DeepSpeed has no directory to swap to",
                hint=view.assign(f"{section}.nvme_path", "/local_nvme"),
            )


@rule("ZC637", "a ZenFlow configuration that cannot work")
def zenflow(view: View) -> Iterator[Finding]:
    if not view.zenflow:
        return
    if view.stage == 0:
        offload = f" and {view.assign(f'{OPT}.device', 'cpu')}" if view.optimizer_device != "cpu" else ""
        yield Finding(ZEN, "does nothing at ZeRO stage 0", hint=view.assign(STAGE, 2) + offload)
    elif view.optimizer_device != "cpu":
        yield Finding(
            ZEN,
            "must be used with CPU offload of the optimizer",
            detail=(f"{view.full(f'{OPT}.device')} is {view.optimizer_device}",),
            hint=view.assign(f"{OPT}.device", "cpu"),
        )
    if view.on(f"{ZEN}.offload") and not view.overlap_comm:
        yield Finding(f"{ZEN}.offload", "needs overlap_comm", hint=view.assign("zero_optimization.overlap_comm", True))
    if view.stage == 3 and view.accelerator != "cuda":
        yield Finding(ZEN, f"needs CUDA at ZeRO stage 3; the accelerator is {view.accelerator}", hint=f"remove {view.full(ZEN)}")
    if view.stage > 0:
        yield from _zenflow_optimizer(view)
    yield from _zenflow_intervals(view)


def _zenflow_optimizer(view: View) -> Iterator[Finding]:
    """Stages 1 and 2 hand optimizer.params, as written, to a class of their own that is torch's AdamW."""
    if view.optimizer_type is None:
        return
    if not isinstance(view.value("optimizer.params"), Mapping):
        yield Finding(
            "optimizer.params", "is missing: ZenFlow builds its own optimizer from it", hint=view.assign("optimizer.params.lr", 1e-4)
        )
    known = keys.optimizer_params("AdamW", False, torch_adam=True) or {}
    for name in view.optimizer_params if view.stage < 3 else ():
        if name not in known:
            yield Finding(
                f"optimizer.params.{name}", "is refused by ZenFlow's own optimizer", hint=f"remove {view.full(f'optimizer.params.{name}')}"
            )


def _zenflow_intervals(view: View) -> Iterator[Finding]:
    strategy, select, update = (view.value(f"{ZEN}.{name}") for name in ("select_strategy", "select_interval", "update_interval"))
    steps = f"{ZEN}.select_interval"
    if strategy == "auto" and isinstance(select, int):
        hint = view.assign(f"{ZEN}.select_strategy", "step")
        yield Finding(steps, "may be a number only with select_strategy step or epoch", hint=hint)
    if strategy != "auto" and not isinstance(select, int):
        yield Finding(steps, f"must be a number with select_strategy {strategy}", hint=view.assign(steps, 4))
    if strategy == "step" and isinstance(select, int) and isinstance(update, int) and 0 < select < update:
        yield Finding(steps, "must be at least update_interval", detail=(f"{select} < {update}",), hint=view.assign(steps, update))
    accumulation = view.value("gradient_accumulation_steps")
    if update == "auto" or (isinstance(update, int) and isinstance(accumulation, int) and update != accumulation):
        known = accumulation if isinstance(accumulation, int) else 1
        yield Finding(
            f"{ZEN}.update_interval",
            "becomes gradient_accumulation_steps in the engine" + (", as 0" if update == "auto" else ""),
            detail=(f"gradient_accumulation_steps is {known}, so the batch would no longer be what the file says",),
            hint=view.assign(f"{ZEN}.update_interval", known),
        )


@rule("ZC638", "SuperOffload where it does not run")
def super_offload(view: View) -> Iterator[Finding]:
    path = f"{OPT}.super_offload"
    if not view.on(path):
        return
    off = view.assign(path, False)
    wants: list[tuple[str, str]] = []
    if view.stage != 3:
        wants.append((f"is ignored in silence at ZeRO stage {view.stage}", view.assign(STAGE, 3)))
    if view.optimizer_device != "cpu":
        wants.append((f"needs {view.assign(f'{OPT}.device', 'cpu')}", view.assign(f"{OPT}.device", "cpu")))
    if view.optimizer_type not in (None, "adam", "adamw"):
        wants.append((f"works with Adam only; optimizer.type is {view.optimizer_type}", view.assign("optimizer.type", "AdamW")))
    if view.accelerator != "cuda":
        yield Finding(path, f"needs CUDA; the accelerator is {view.accelerator}", hint=off)
    elif wants:
        text, *others = [want for want, _ in wants]
        hint = " and ".join(change for _, change in wants) + f", or {off}"
        yield Finding(path, text, detail=tuple(f"it also {other}" for other in others), hint=hint)
    if view.number(f"{OPT}.cpuadam_cores_perc") == 0:
        yield Finding(f"{OPT}.cpuadam_cores_perc", "must be greater than 0", hint=view.assign(f"{OPT}.cpuadam_cores_perc", 0.8))


@rule("ZC639", "partial optimizer offload outside ZeRO stage 3 or without Adam")
def offload_ratio(view: View) -> Iterator[Finding]:
    path = f"{OPT}.ratio"
    if not view.has(path) or view.number(path) >= 1:
        return
    if view.stage != 3:
        yield Finding(path, f"below 1 is refused at ZeRO stage {view.stage}", hint=f"{view.assign(path, 1.0)}, or {view.assign(STAGE, 3)}")
    elif view.offloaded and (view.optimizer_type not in (None, "adam", "adamw") or view.optimizer_params.get("torch_adam")):
        yield Finding(path, "below 1 needs DeepSpeedCPUAdam", hint=f"{view.assign('optimizer.type', 'AdamW')}, or {view.assign(path, 1.0)}")
