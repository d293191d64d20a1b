"""What is not carried over: values that DeepSpeed ignores, or fails on. Each with the code of the check that says so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from zerocfg.deepspeed.check import check_deepspeed
from zerocfg.deepspeed.importer.draft import Draft, nested, split
from zerocfg.deepspeed.importer.world import MICRO, STEPS, TOTAL
from zerocfg.deepspeed.keys import lookup
from zerocfg.deepspeed.view import View
from zerocfg.diagnostics import Diagnostic, Severity
from zerocfg.passes.resolve.scheduler import TYPES

ZERO = "zero_optimization"
OWNED = ("fp16", "bf16", f"{ZERO}.offload_optimizer", f"{ZERO}.offload_param")
"""Sections whose switch a group decides: what waits in them for the day they are switched on has no place."""
PRESENCE = ("checkpoint.writer", "datastates_ckpt")
"""Sections that DeepSpeed acts on because they are there, and in which it ignores what it does not know."""
_SWITCHES = ("device", "enabled", "type")


def refuse_errors(draft: Draft, world_size: int | None) -> list[Diagnostic]:
    """Leave out what the checks call an error, until they find none. Gives the errors that no leaf is to blame for."""
    present = [section for section in PRESENCE if draft.below(section)]
    while True:
        before = dict(draft.leaves)
        problems = check_deepspeed(_with_accumulation(draft), world_size=world_size, prefix="")
        left = [problem for problem in problems if problem.severity is Severity.ERROR and not _leave_out(draft, problem)]
        for section in present:
            if not draft.below(section) and section not in draft.refused:
                draft.leaves[section] = {}
        if draft.leaves == before:
            return left


def _with_accumulation(draft: Draft) -> dict[str, Any]:
    """The config, and the one accumulation step that DeepSpeed infers where it has nothing to divide (config.py:640-652)."""
    config = nested(draft.leaves)
    if STEPS not in config and not (TOTAL in config and MICRO in config):
        config[STEPS] = 1
    return config


def _leave_out(draft: Draft, problem: Diagnostic) -> bool:
    """Refuse what the problem is about; True when that is done, or when a group will write what is missing."""
    path = _path_of(draft, problem)
    blamed = draft.below(path)
    if not blamed and (_inside_a_list(draft, path, problem) or writes_missing(draft, problem)):
        return True
    section = path
    while not blamed and "." in section:  # something is missing in a section: it cannot work
        section = section.rpartition(".")[0]
        if section == ZERO:
            return False
        blamed = draft.below(section)
    switch, _, last = path.rpartition(".")
    if last in _SWITCHES and blamed == [path]:
        blamed += [other for other in draft.below(switch) if other != path]  # has nothing left to say
    for leaf in blamed:
        about = "" if leaf == path or leaf.startswith(f"{path}.") else f"{path} "
        draft.refuse(leaf, problem.code, about + reason(problem))
    return bool(blamed)


def writes_missing(draft: Draft, problem: Diagnostic) -> bool:
    """A group writes what the problem says is missing."""
    missing_argument = problem.code == "ZC657" and draft.leaves.get("scheduler.type") in TYPES
    return problem.code == "ZC640" or missing_argument


def _path_of(draft: Draft, problem: Diagnostic) -> str:
    """The draft's path: names with dots stand in quotes there."""
    if draft.below(problem.path):
        return problem.path
    return next((leaf for leaf in draft.leaves if '"' in leaf and ".".join(split(leaf)) == problem.path), problem.path)


def _inside_a_list(draft: Draft, path: str, problem: Diagnostic) -> bool:
    """A key of a dict in a list: only it is left out, the list stays."""
    names = path.split(".")
    for place in range(len(names) - 1, 0, -1):
        above = ".".join(names[:place])
        value = draft.leaves.get(above)
        if isinstance(value, list):
            shorter = _without(value, names[place:])
            if shorter is None:
                draft.refuse(above, problem.code, f"{path} {reason(problem)}")
            else:
                draft.change(above, shorter, problem.code, f"{path} is left out: {reason(problem)}")
            return True
    return False


def _without(value: Any, names: list[str]) -> Any:
    """A copy without the key that `names` leads to; None where that is a whole item, or nothing."""
    here, *rest = names
    if isinstance(value, list) and here.isdigit() and int(here) < len(value) and rest:
        inner = _without(value[int(here)], rest)
        return None if inner is None else [inner if place == int(here) else item for place, item in enumerate(value)]
    if isinstance(value, dict) and here in value:
        if not rest:
            return {name: item for name, item in value.items() if name != here}
        inner = _without(value[here], rest)
        return None if inner is None else value | {here: inner}
    return None


def reason(problem: Diagnostic) -> str:
    """The problem without its path and value, which stand beside it in the table, and with the fix."""
    text = problem.message
    if text.startswith(problem.path):
        # "path=value text" or "path text"; the value is JSON, the text starts with a word
        text = text[len(problem.path) :]
        text = text.partition(" ")[2] if not text.startswith("=") else _after_value(text[1:])
    return "; ".join((text, *problem.detail)) + (f"; try: {problem.hint}" if problem.hint else "")


def _after_value(text: str) -> str:
    """What follows the JSON value at the start of `text`, which may be shortened (... at its end)."""
    try:
        return text[json.JSONDecoder().raw_decode(text)[1] :].strip()
    except ValueError:
        return text.partition("... ")[2] or text


def refuse_inert(draft: Draft) -> None:
    """Leave out what has no effect, although the checks do not call it an error: the same result without it."""
    while inert := [*_inert(draft)]:
        for path, code, text in inert:
            draft.refuse(path, code, text)


def _inert(draft: Draft) -> Iterator[tuple[str, str, str]]:
    view = draft.view()
    comments = [problem for problem in check_deepspeed(nested(draft.leaves), world_size=None, prefix="") if problem.code == "ZC611"]
    yield from ((path, "ZC611", "a comment: DeepSpeed ignores it") for p in comments for path in draft.below(_path_of(draft, p)))
    for path, value in draft.leaves.items():
        key = lookup(path) if '"' not in path else None
        if key is None or (key.is_section and value == {} and path not in OWNED):
            continue
        owner = next((section for section in OWNED if path.startswith(f"{section}.")), None)
        if key.status == "dead":
            yield path, "ZC607", f"DeepSpeed parses it and never uses it: {key.doc}"
        elif key.stages and view.stage not in key.stages:
            stages = " or ".join(map(str, key.stages))
            yield path, "ZC630", f"no effect at ZeRO stage {view.stage}: only stage {stages} reads it"
        elif path.startswith(("optimizer.params.", "scheduler.params.")):
            kind = path.partition(".")[0]
            if (view.optimizer_type if kind == "optimizer" else view.scheduler_type) is None:
                yield path, "ZC631", f"no effect without {kind}.type"
        elif unmet := view.unmet(key.needs):
            if owner is not None:
                yield path, "ZC906", f"no effect while {_words(unmet)}"
            elif not _off_on_purpose(view, unmet):
                yield path, "ZC631", f"no effect while {_words(unmet)}"


def _words(unmet: list[str]) -> str:
    said = []
    for condition in unmet:
        path, equals, wanted = condition.partition("=")
        said.append(f"{path} is not {wanted.replace('|', ' or ')}" if equals else f"{path} is off")
    return " and ".join(said)


def _off_on_purpose(view: View, unmet: list[str]) -> bool:
    """The section says itself that it is off: its other values wait for the day it is switched on. Not so where a group writes
    the switch: it leaves out what is off."""
    return any(c.endswith(".enabled") and not c.startswith(OWNED) and view.raw(c) is False for c in unmet)
