"""fp16, bf16, torch_autocast and data_types: what may be on together, where, on which device."""

from __future__ import annotations

from collections.abc import Iterator

from zerocfg.deepspeed.rules import Finding, rule
from zerocfg.deepspeed.view import OPT, View
from zerocfg.diagnostics import Severity

STAGE = "zero_optimization.stage"
FP16_MASTER = "fp16.fp16_master_weights_and_grads"
BF16_MASTER = "bf16.bf16_master_weights_and_grads"
BF16_STATES = "bf16.bf16_optimizer_states"


def dtype_of(name: object) -> str | None:
    """fp16, bf16, fp32 or int8 for a spelling DeepSpeed knows."""
    words = {"half": "fp16", "float": "fp32", "float16": "fp16", "bfloat16": "bf16", "float32": "fp32"}
    if not isinstance(name, str):
        return None
    plain = name.removeprefix("torch.")
    return words.get(plain, plain)


@rule("ZC661", "fp16 and bf16 both on; DeepSpeed refuses the pair")
def both_precisions(view: View) -> Iterator[Finding]:
    if view.fp16 and view.bf16:
        yield Finding("fp16.enabled", "cannot be on together with bf16", hint=view.assign("fp16.enabled", False))


@rule("ZC662", "half-precision master weights or optimizer states without ZeRO")
def master_stage(view: View) -> Iterator[Finding]:
    if view.stage > 0:
        return
    for path in (FP16_MASTER, BF16_MASTER, BF16_STATES):
        if view.on(path):
            yield Finding(path, "is refused at ZeRO stage 0", hint=f"{view.assign(path, False)}, or {view.assign(STAGE, 1)}")


@rule("ZC663", "half-precision master weights without the CPU optimizer they need")
def master_offload(view: View) -> Iterator[Finding]:
    if view.stage == 0:
        return
    cpu_adam = view.offloaded and view.optimizer_type in (None, "adam", "adamw") and not view.optimizer_params.get("torch_adam")
    for path, switch in ((FP16_MASTER, view.fp16), (BF16_MASTER, view.bf16)):
        if not view.on(path) or not switch or cpu_adam:
            continue
        if path == BF16_MASTER and view.on(BF16_STATES) and not view.offloaded:
            continue
        hint = view.assign(f"{OPT}.device", "cpu") if not view.offloaded else view.assign("optimizer.type", "AdamW")
        if path == BF16_MASTER and not view.offloaded:
            hint += f", or {view.assign(BF16_STATES, True)}"
        device = f"{view.full(f'{OPT}.device')} is {view.optimizer_device}"
        yield Finding(
            path,
            "needs optimizer offload with DeepSpeedCPUAdam",
            detail=(f"{device}, optimizer.type is {view.optimizer_type or 'left to the script'}",),
            hint=hint,
        )


@rule("ZC664", "bf16_optimizer_states without bf16_master_weights_and_grads, or both kinds of master weights")
def master_pairs(view: View) -> Iterator[Finding]:
    if view.on(BF16_STATES) and not view.on(BF16_MASTER):
        yield Finding(BF16_STATES, "needs bf16_master_weights_and_grads", hint=view.assign(BF16_MASTER, True))
    if view.on(FP16_MASTER) and view.on(BF16_MASTER):
        yield Finding(FP16_MASTER, "does not go with bf16_master_weights_and_grads", hint=view.assign(FP16_MASTER, False))


@rule("ZC665", "a dynamic loss scale that cannot move")
def dynamic_scale(view: View) -> Iterator[Finding]:
    if not view.fp16 or view.number("fp16.loss_scale") != 0:
        return
    for path, default in (("fp16.loss_scale_window", 1000), ("fp16.min_loss_scale", 1)):
        if view.number(path) <= 0 and view.has(path):
            yield Finding(path, "must be greater than 0 while the loss scale is dynamic", hint=view.assign(path, default))


@rule("ZC666", "gradient accumulation in another type than the model's at ZeRO stage 0")
def accumulation_type(view: View) -> Iterator[Finding]:
    wanted = dtype_of(view.value("data_types.grad_accum_dtype"))
    if wanted is not None and view.stage == 0 and wanted != view.precision:
        yield Finding(
            "data_types.grad_accum_dtype",
            f"must be {view.precision} at ZeRO stage 0, the type of the model",
            hint=f"remove {view.full('data_types.grad_accum_dtype')}, or {view.assign(STAGE, 1)}",
        )


@rule("ZC667", "data_types.param_dtype that contradicts fp16 and bf16")
def param_type(view: View) -> Iterator[Finding]:
    wanted = dtype_of(view.value("data_types.param_dtype"))
    if wanted is not None and wanted != view.precision:
        remove = f"remove {view.full('data_types.param_dtype')}"
        hint = view.assign(f"{wanted}.enabled", True) if wanted in ("fp16", "bf16") else remove
        yield Finding("data_types.param_dtype", f"contradicts the precision of the run, {view.precision}", hint=hint)


@rule("ZC668", "torch_autocast on without a type")
def autocast_type(view: View) -> Iterator[Finding]:
    if view.on("torch_autocast.enabled") and view.value("torch_autocast.dtype") is None:
        yield Finding(
            "torch_autocast.dtype", "is missing: DeepSpeed goes on with none", hint=view.assign("torch_autocast.dtype", "bfloat16")
        )


@rule("ZC669", "torch_autocast besides fp16 or bf16")
def autocast_and_half(view: View) -> Iterator[Finding]:
    if view.on("torch_autocast.enabled") and view.precision != "fp32":
        hint = f"{view.assign('torch_autocast.enabled', False)}, or {view.assign(f'{view.precision}.enabled', False)}"
        yield Finding("torch_autocast.enabled", f"adds little to {view.precision}, which is on too", hint=hint, severity=Severity.WARNING)


@rule("ZC670", "a precision that the device does not have")
def device_precision(view: View) -> Iterator[Finding]:
    capability = view.compute_capability
    shown = "" if capability is None else f"{capability[0]}.{capability[1]}"
    if view.fp16 and view.accelerator == "cpu":
        yield Finding("fp16.enabled", "is refused by most CPUs", hint=view.assign("bf16.enabled", True), severity=Severity.WARNING)
    if view.fp16 and view.accelerator == "cuda" and capability is not None and capability[0] < 7:
        yield Finding(
            "fp16.enabled", f"is refused at compute capability {shown}: 7.0 is the least", hint=view.assign("fp16.enabled", False)
        )
    if view.bf16 and view.accelerator == "cuda" and capability is not None and capability[0] < 8:
        yield Finding(
            "bf16.enabled",
            f"is emulated at compute capability {shown}: bfloat16 arithmetic starts at 8.0",
            hint=f"{view.assign('fp16.enabled', True)} and {view.assign('bf16.enabled', False)}",
            severity=Severity.WARNING,
        )
