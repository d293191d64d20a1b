"""optimizer: the class, its arguments, and where it may run."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from zerocfg.deepspeed import _classes, keys
from zerocfg.deepspeed.rules import Finding, rule
from zerocfg.deepspeed.values import usable_number
from zerocfg.deepspeed.view import View
from zerocfg.diagnostics import Severity

TYPE = "optimizer.type"
TESTED = frozenset({"adam", "adamw", "adagrad", "lion", "muon"})
"""Types whose class ZeRO accepts without zero_allow_untested_optimizer (deepspeed/runtime/zero/utils.py)."""


def nearest_type(name: str, known: tuple[str, ...]) -> str | None:
    """The known class that `name` may mean: another case, or a typing mistake."""
    folded = {candidate.casefold(): candidate for candidate in known}
    match = get_close_matches(name.casefold(), folded, n=1, cutoff=0.6)
    return folded[match[0]] if match else None


@rule("ZC645", "an optimizer that DeepSpeed does not have")
def unknown_optimizer(view: View) -> Iterator[Finding]:
    name = view.optimizer_type
    if name is None or name in keys.optimizer_types():
        return
    gone = _classes.REMOVED_OPTIMIZERS.get(name.lower())
    if gone is not None:
        release, instead = gone
        yield Finding(TYPE, f"was removed in DeepSpeed {release}", hint=view.assign(TYPE, instead))
        return
    near = nearest_type(name, keys.optimizer_types())
    yield Finding(
        TYPE,
        "is no optimizer of DeepSpeed and no class of torch.optim",
        detail=("DeepSpeed's: " + ", ".join(_classes.OPTIMIZERS), "torch's names are taken exactly, upper and lower case"),
        hint=view.assign(TYPE, near) if near else "",
    )


@rule("ZC646", "an argument that the optimizer does not take")
def unknown_argument(view: View) -> Iterator[Finding]:
    known = view.optimizer_arguments
    if not known or view.optimizer_type is None:
        return
    for name in view.optimizer_params:
        if name in known or name == "max_grad_norm":
            continue
        path = f"optimizer.params.{name}"
        where = " on the CPU (offload)" if view.offloaded and name in (keys.optimizer_params(view.optimizer_type, False) or {}) else ""
        text = "is filtered out in silence" if view.optimizer_type == "muon" else "makes the engine raise"
        near = get_close_matches(str(name), known, n=1, cutoff=0.6)
        hint = f"use {view.full(f'optimizer.params.{near[0]}')}" if near and not where else f"remove {view.full(path)}"
        yield Finding(path, f"{text}: {view.optimizer_type} does not take it{where}", detail=("it takes " + ", ".join(known),), hint=hint)


@rule("ZC647", "max_grad_norm in optimizer.params; the engine raises")
def max_grad_norm(view: View) -> Iterator[Finding]:
    if "max_grad_norm" in view.optimizer_params:
        value = view.optimizer_params["max_grad_norm"]
        yield Finding("optimizer.params.max_grad_norm", "makes the engine raise", hint=view.assign("gradient_clipping", value))


@rule("ZC648", "an optimizer argument with a value that its class refuses")
def argument_value(view: View) -> Iterator[Finding]:
    params = view.optimizer_params
    known = view.optimizer_arguments
    own_class = view.optimizer_type in ("adam", "adamw", "lamb", "adagrad") and not params.get("torch_adam")
    if params.get("amsgrad") is True and own_class and "amsgrad" in known:
        yield Finding("optimizer.params.amsgrad", "is refused by DeepSpeed's class", hint=view.assign("optimizer.params.amsgrad", False))
    betas = params.get("betas")
    if "betas" in known and isinstance(betas, list | tuple):
        fit = len(betas) == 2 and all(isinstance(b, int | float) and not isinstance(b, bool) and 0 <= b < 1 for b in betas)
        if not fit:
            yield Finding(
                "optimizer.params.betas", "must be two numbers from 0 to below 1", hint=view.assign("optimizer.params.betas", [0.9, 0.999])
            )
    for name in ("lr", "eps", "weight_decay", "muon_lr", "adam_lr"):
        value = usable_number(params.get(name))
        if name in known and value is not None and value < 0:
            yield Finding(f"optimizer.params.{name}", "must not be negative", hint=view.assign(f"optimizer.params.{name}", abs(value)))
    if view.optimizer_type == "muon" and params.get("ns_method", "gram") not in ("gram", "standard"):
        yield Finding("optimizer.params.ns_method", "is none of gram, standard", hint=view.assign("optimizer.params.ns_method", "gram"))


@rule("ZC649", "an optimizer switch that does not do what it says")
def misleading_switch(view: View) -> Iterator[Finding]:
    params, type_ = view.optimizer_params, view.optimizer_type
    if type_ == "adam" and "adam_w_mode" not in params and params.get("weight_decay") not in (None, 0, 0.0):
        yield Finding(
            TYPE,
            "is AdamW here: DeepSpeed's Adam decouples weight decay unless adam_w_mode is false",
            hint=f"{view.assign(TYPE, 'AdamW')}, or {view.assign('optimizer.params.adam_w_mode', False)}",
            severity=Severity.WARNING,
        )
    if type_ == "adamw" and params.get("adam_w_mode") is False:
        yield Finding("optimizer.params.adam_w_mode", "is ignored in silence: AdamW is always decoupled", hint=view.assign(TYPE, "Adam"))
    if type_ in ("adam", "adamw", "muon") and params.get("fp32_optimizer_states") is not None and not view.offloaded:
        yield Finding(
            "optimizer.params.fp32_optimizer_states",
            "is ignored in silence: only the CPU optimizer reads it",
            hint="remove " + view.full("optimizer.params.fp32_optimizer_states"),
        )
    if type_ == "muon" and "foreach" in params and not params.get("torch_adam"):
        yield Finding(
            "optimizer.params.foreach",
            "is ignored in silence unless torch_adam is true",
            hint="remove " + view.full("optimizer.params.foreach"),
        )


@rule("ZC650", "an optimizer that ZeRO wraps only on demand")
def untested_optimizer(view: View) -> Iterator[Finding]:
    name = view.optimizer_type
    if name is None or view.stage == 0 or name in TESTED or name not in keys.optimizer_types():
        return
    if not view.on("zero_allow_untested_optimizer"):
        yield Finding(
            TYPE,
            "is untested with ZeRO: the engine raises",
            hint=view.assign("zero_allow_untested_optimizer", True),
        )


@rule("ZC651", "LAMB with a fixed loss scale")
def lamb_loss_scale(view: View) -> Iterator[Finding]:
    if view.optimizer_type == "lamb" and view.number("fp16.loss_scale") != 0:
        yield Finding("fp16.loss_scale", "must be 0: LAMB needs dynamic loss scaling", hint=view.assign("fp16.loss_scale", 0))


@rule("ZC652", "legacy_fusion with FusedAdam at stage 0 in fp16; the first step raises")
def legacy_fusion(view: View) -> Iterator[Finding]:
    fused = view.optimizer_type in ("adam", "adamw") and not view.optimizer_params.get("torch_adam") and not view.offloaded
    if view.on("optimizer.legacy_fusion") and view.stage == 0 and view.fp16 and fused:
        yield Finding(
            "optimizer.legacy_fusion", "raises at the first step with FusedAdam", hint=view.assign("optimizer.legacy_fusion", False)
        )


@rule("ZC653", "Muon with a setting it cannot work with")
def muon(view: View) -> Iterator[Finding]:
    if view.optimizer_type != "muon" or view.stage != 3:
        return
    if view.on("zero_optimization.reduce_scatter"):
        yield Finding(
            "zero_optimization.reduce_scatter",
            "must be false for Muon at ZeRO stage 3",
            detail=("it is true unless written",),
            hint=view.assign("zero_optimization.reduce_scatter", False),
        )
    if view.on("zero_optimization.zero_quantized_gradients"):
        path = "zero_optimization.zero_quantized_gradients"
        yield Finding(path, "does not go with Muon", hint=view.assign(path, False))
