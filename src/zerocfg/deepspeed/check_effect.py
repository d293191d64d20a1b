"""Values that DeepSpeed reads and then does nothing with: the wrong ZeRO stage, a switch that is off."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from zerocfg.deepspeed.keys import lookup
from zerocfg.deepspeed.rules import Finding, rule
from zerocfg.deepspeed.view import OPT, PAR, Item, View
from zerocfg.diagnostics import Severity

OWN_RULE = (PAR, OPT, "zero_optimization.zenflow", "zero_optimization.cpu_offload")
"""Sections whose stage is checked by ZC632 to ZC634 and ZC637, once for the section."""

RAISES = frozenset(
    {
        "zero_optimization.compute_grad_norm",
        "zero_optimization.elastic_checkpoint",
        "zero_optimization.pipeline_loading_checkpoint",
        "fp16.fp16_master_weights_and_grads",
        "bf16.bf16_master_weights_and_grads",
        "bf16.bf16_optimizer_states",
        "compile.deepcompile",
    }
)
"""Keys that DeepSpeed does act on at the wrong stage: by raising, or by falling back. Other rules speak of them."""


def _live(view: View) -> Iterator[Item]:
    """Written keys with a usable value, sections and dead keys apart."""
    for item in view.items:
        key = item.key
        if key is None or key.is_section or item.judgement is None or not item.judgement.usable:
            continue
        if key.status in ("live", "deprecated"):
            yield item


def _is_default(item: Item) -> bool:
    key, judgement = item.key, item.judgement
    return key is not None and judgement is not None and judgement.value == key.default


@rule("ZC630", "a value that has no effect at this ZeRO stage")
def wrong_stage(view: View) -> Iterator[Finding]:
    if not view.sure("zero_optimization.stage"):
        return
    for item in _live(view):
        key = item.key
        if key is None or not key.stages or view.stage in key.stages:
            continue
        same = _is_default(item) or (item.path == "zero_optimization.overlap_comm" and item.value is False)
        if item.path.startswith(OWN_RULE) or (item.path in RAISES and not same):
            continue
        if same and isinstance(item.value, bool):
            continue  # a switch left as it is misleads nobody
        stages = " or ".join(str(stage) for stage in key.stages)
        yield Finding(
            item.path,
            f"has no effect at ZeRO stage {view.stage}",
            detail=(f"only stage {stages} reads it",),
            hint=f"remove {view.full(item.written)}, or set {view.full('zero_optimization.stage')} to {stages}",
            severity=Severity.WARNING if same else Severity.ERROR,
        )


@rule("ZC631", "a value that has no effect because something else is off")
def switched_off(view: View) -> Iterator[Finding]:
    for item in _live(view):
        key = item.key
        if key is None or _is_default(item) or (key.stages and view.stage not in key.stages):
            continue
        unmet = view.unmet(key.needs)
        if not unmet or any(_off_on_purpose(view, condition) for condition in unmet):
            continue
        wanted = " and ".join(_as_override(view, condition) for condition in unmet)
        # no key sets the accelerator
        instead = "" if any("accelerator" in condition for condition in unmet) else f", or set {wanted}"
        yield Finding(item.path, "has no effect", detail=(f"it needs {wanted}",), hint=f"remove {view.full(item.written)}{instead}")


def _off_on_purpose(view: View, condition: str) -> bool:
    """The section says itself that it is off, so its other values only wait for the day it is switched on; or its switch
    holds something unusable, which is reported there."""
    for part in condition.split(" or "):
        path = part.partition("=")[0]
        if not view.sure(path):
            return True
        if path.endswith(".enabled") and view.raw(path) is False:
            return True
        if path.endswith(".device") and view.raw(path) == "none":
            return True
    return False


def _as_override(view: View, condition: str) -> str:
    words = []
    for part in condition.split(" or "):
        path, equals, wanted = part.partition("=")
        if path == "accelerator":
            words.append(f"the accelerator {wanted}")
        else:
            words.append(f"{view.full(path)}={wanted.split('|')[0].lower() if equals else _on(path)}")
    return " or ".join(words)


def _on(path: str) -> str:
    """A value that switches a key on."""
    key = lookup(path)
    return {"int": "2", "str": "VALUE"}.get(key.kinds[0], "true") if key is not None and not key.is_section else "true"


HALF_FLAGS = {
    "fp16.fp16_master_weights_and_grads": "fp16.enabled",
    "bf16.bf16_master_weights_and_grads": "bf16.enabled",
    "bf16.bf16_optimizer_states": "bf16.enabled",
}


@rule("ZC636", "half-precision master weights or states although that precision is off")
def half_flags_off(view: View) -> Iterator[Finding]:
    for path, switch in HALF_FLAGS.items():
        section = view.raw(switch.partition(".")[0])
        if view.on(path) and not view.on(switch) and isinstance(section, Mapping) and view.raw(switch) is not None:
            yield Finding(
                path,
                f"asks for a precision that is off: {view.full(switch)} is false",
                hint=f"{view.assign(switch, True)}, or {view.assign(path, False)}",
            )
