"""Keys that DeepSpeed does not read where they stand: unknown, misplaced, removed, written twice, dead."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from zerocfg.deepspeed import keys
from zerocfg.deepspeed.foreign import FOREIGN
from zerocfg.deepspeed.rules import Finding, rule
from zerocfg.deepspeed.view import Item, View
from zerocfg.diagnostics import Severity

COMMENT_STARTS = ("_", "//", "#", "comment")


def _refused(item: Item) -> bool:
    """Unknown neighbours make DeepSpeed raise here: a pydantic model reads the section."""
    section = keys.lookup(item.path.rpartition(".")[0]) if "." in item.path else None
    return section is not None and section.reader == "model"


def _consequence(item: Item) -> str:
    if _refused(item):
        return "is no key of DeepSpeed: the section refuses it"
    return "is no key of DeepSpeed: ignored in silence"


def _kind(item: Item) -> str:
    """Which of the rules below speaks about an unknown key."""
    name = item.parts[-1]
    if item.path in FOREIGN:
        return "foreign"
    if name.lower().startswith(COMMENT_STARTS) and not _refused(item):
        return "comment"
    if _homes(item):
        return "misplaced"
    return "unknown"


def _homes(item: Item) -> list[str]:
    """Where exactly this name is a key."""
    name = item.parts[-1]
    if "." in name:
        return [keys.canonical(name)] if keys.lookup(name) is not None else []
    return [path for path in keys.nearest(item.path) if name in (path.rpartition(".")[2], *_spellings(path))]


def _spellings(path: str) -> list[str]:
    key = keys.lookup(path)
    return [alias.rpartition(".")[2] for alias in key.aliases] if key is not None else []


def _unknown(view: View, kind: str) -> Iterator[Item]:
    return (item for item in view.items if item.key is None and _kind(item) == kind)


@rule("ZC601", "a key that DeepSpeed does not read; it refuses or silently ignores it")
def unknown_key(view: View) -> Iterator[Finding]:
    for item in _unknown(view, "unknown"):
        near = [view.full(path) for path in keys.nearest(item.path)]
        hint = f"perhaps {' or '.join(near)}" if near else f"remove {view.full(item.written)}"
        yield Finding(item.written, _consequence(item), hint=hint)


@rule("ZC602", "a key of DeepSpeed in the wrong section or at the wrong level")
def misplaced_key(view: View) -> Iterator[Finding]:
    for item in _unknown(view, "misplaced"):
        homes = _homes(item)
        if item.path.startswith("bf16.") and all(home.startswith("fp16.") for home in homes):
            scaling = item.parts[-1] != "auto_cast"
            hint = f"remove {view.full(item.written)}: bfloat16 has no {'loss scaling' if scaling else item.parts[-1]}"
        else:
            hint = "move it to " + " or ".join(view.full(home) for home in homes)
        where = f"the section {item.path.rpartition('.')[0]}" if "." in item.path else "the top level"
        yield Finding(item.written, _consequence(item), detail=(f"{item.parts[-1]} is not read in {where}",), hint=hint)


@rule("ZC603", "a key that this release of DeepSpeed no longer has")
def removed_key(view: View) -> Iterator[Finding]:
    for item in view.items:
        key = item.key
        if key is None or key.status != "removed":
            continue
        text = "makes DeepSpeed raise, whatever its value" if key.loud else "is ignored in silence"
        detail = (f"removed in {key.removed_in}: {key.doc}",)
        remove = f"remove {view.full(item.written)}"
        instead = view.full(key.replacement) if keys.lookup(key.replacement) else key.replacement
        yield Finding(item.written, text, detail=detail, hint=f"{remove}; use {instead}" if instead else remove)


@rule("ZC604", "both spellings of one key; DeepSpeed refuses the pair")
def both_spellings(view: View) -> Iterator[Finding]:
    written: dict[str, list[Item]] = defaultdict(list)
    for item in view.items:
        if item.key is not None and item.parts[0] != "bfloat16":
            written[item.path].append(item)
    for path, items in written.items():
        if len(items) > 1 and items[0].parts[:-1] == items[1].parts[:-1]:
            names = " and ".join(view.full(item.written) for item in items)
            yield Finding(path, "is written in both spellings", detail=(names,), hint=f"keep {view.full(path)} only")


@rule("ZC605", "a deprecated key that still works")
def deprecated_key(view: View) -> Iterator[Finding]:
    for item in view.items:
        key = item.key
        if key is None or key.status != "deprecated" or item.judgement is None or not item.judgement.usable:
            continue
        if _together(view, item) or view.unmet(key.needs) or (key.stages and view.stage not in key.stages):
            continue
        yield Finding(item.written, "is deprecated", hint=_instead(view, item), severity=Severity.WARNING)


REPLACEMENT_VALUES = {
    "zero_optimization.cpu_offload": ("zero_optimization.offload_optimizer.device", "cpu", "none"),
    "zero_optimization.cpu_offload_param": ("zero_optimization.offload_param.device", "cpu", "none"),
    "zero_optimization.stage3_gather_fp16_weights_on_model_save": (
        "zero_optimization.stage3_gather_16bit_weights_on_model_save",
        True,
        False,
    ),
}
"""Deprecated flag -> the key that replaces it, and its value for true and for false."""


def _instead(view: View, item: Item) -> str:
    if item.path in REPLACEMENT_VALUES and item.judgement is not None:
        path, yes, no = REPLACEMENT_VALUES[item.path]
        return view.assign(path, yes if item.judgement.value else no)
    return view.full(item.key.replacement) if item.key is not None else ""


def _together(view: View, item: Item) -> bool:
    """The replacement is written too; DeepSpeed drops "auto" before it looks."""
    key = item.key
    return key is not None and view.has(key.replacement) and view.raw(key.replacement) != "auto" and item.value != "auto"


@rule("ZC606", "a deprecated key together with its replacement; DeepSpeed refuses the pair")
def deprecated_with_replacement(view: View) -> Iterator[Finding]:
    for item in view.items:
        key = item.key
        if key is not None and key.status == "deprecated" and key.reader == "model" and _together(view, item):
            yield Finding(
                item.written,
                f"is the old form of {view.full(key.replacement)}, which is written too",
                hint=f"remove {view.full(item.written)}",
            )


@rule("ZC607", "a key that DeepSpeed parses and never uses")
def dead_key(view: View) -> Iterator[Finding]:
    for item in view.items:
        key = item.key
        if key is None or key.status != "dead" or item.judgement is None or not item.judgement.usable:
            continue
        same = item.judgement.value == key.default
        text = "makes the engine raise" if item.path == "zero_optimization.legacy_stage1" and not same else "has no effect"
        hint = f"remove {view.full(item.written)}"
        if key.replacement:
            hint += "; use " + " or ".join(view.full(path) for path in key.replacement.split(" or "))
        yield Finding(item.written, text, detail=(key.doc,), hint=hint, severity=Severity.WARNING if same else Severity.ERROR)


@rule("ZC608", "null where DeepSpeed expects a value or a section")
def null_value(view: View) -> Iterator[Finding]:
    for item in view.items:
        if item.judgement is None or item.judgement.outcome.value != "null" or item.key is None:
            continue
        kind = "section" if item.key.is_section else "value"
        yield Finding(item.written, f"is no {kind} that DeepSpeed can read", hint=f"remove {view.full(item.written)}")


@rule("ZC609", "a value where DeepSpeed expects a section")
def not_a_section(view: View) -> Iterator[Finding]:
    for item in view.items:
        if item.judgement is None or item.judgement.outcome.value != "shape" or item.key is None:
            continue
        if item.path == "zero_optimization" and isinstance(item.value, bool):
            continue
        names = ", ".join(key.name for key in keys.children(item.path)[:4] if key.name != "*")
        section = f"{view.full(item.written)}: {{...}}" + (f" with {names}, ..." if names else "")
        hint = section if item.value else f"remove {view.full(item.written)}"
        yield Finding(item.written, "must be a section in braces", hint=hint)


@rule("ZC610", "a setting of another program that DeepSpeed does not read")
def foreign_key(view: View) -> Iterator[Finding]:
    for item in _unknown(view, "foreign"):
        what, instead = FOREIGN[item.path]
        hint = f"use {view.full(instead)}" if instead else f"remove {view.full(item.written)}"
        yield Finding(item.written, _consequence(item), detail=(f"{item.parts[-1]} is {what}",), hint=hint)


@rule("ZC611", "a comment written as a key; DeepSpeed ignores it")
def comment_key(view: View) -> Iterator[Finding]:
    for item in _unknown(view, "comment"):
        yield Finding(item.written, "is taken for a comment", hint=f"remove {view.full(item.written)}", severity=Severity.WARNING)


@rule("ZC612", "the old section bfloat16; ignored beside bf16")
def old_bfloat16(view: View) -> Iterator[Finding]:
    if "bfloat16" not in view.config:
        return
    if view.config.get("bf16") is not None:
        yield Finding("bfloat16", "is ignored in silence: bf16 is written too", hint=f"remove {view.full('bfloat16')}")
    else:
        severity = Severity.ERROR if view.config["bfloat16"] is None else Severity.WARNING  # null is fine for bf16 only
        yield Finding("bfloat16", "is the old name of bf16", hint=f"rename it to {view.full('bf16')}", severity=severity)


@rule("ZC613", "settings that act only through the training script, its model or its environment")
def needs_script(view: View) -> Iterator[Finding]:
    first: dict[str, str] = {}
    for item in view.items:
        key = item.key
        if key is None or key.is_section or item.judgement is None or not item.judgement.usable or item.judgement.value == key.default:
            continue
        for condition in key.needs:
            if condition.startswith(("call:", "model:", "env:")) and not view.unmet(key.needs):
                first.setdefault(condition, item.written)
    for condition, written in first.items():
        kind, _, what = condition.partition(": ")
        text = {
            "call": f"does nothing unless the script calls {what}",
            "model": f"does nothing unless the model is a {what}",
            "env": f"needs the environment variables {what}, which torchrun does not set",
        }[kind]
        parts = written.split(".")
        path = next((p for p in (".".join(parts[:n]) for n in range(1, len(parts) + 1)) if _says(p, condition)), written)
        yield Finding(path, text, severity=Severity.WARNING)


def _says(path: str, condition: str) -> bool:
    key = keys.lookup(path)
    return key is not None and condition in key.needs


@rule("ZC614", "zero_optimization as true or false: the old form")
def zero_as_bool(view: View) -> Iterator[Finding]:
    written = view.config.get("zero_optimization")
    if isinstance(written, bool):
        hint = view.assign("zero_optimization.stage", int(written))
        yield Finding("zero_optimization", "is the old form", hint=hint, severity=Severity.WARNING)
