"""The free `deepspeed` mapping, laid over the emitted JSON last, and the JSON's problems in words that an override can be made of."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from zerocfg.deepspeed.coerce import coerce_whole
from zerocfg.deepspeed.keys import canonical
from zerocfg.diagnostics import Diagnostic
from zerocfg.passes.lower.deepspeed import DECIDED_BY_GROUPS
from zerocfg.plan import Plan
from zerocfg.provenance import Reason, asked


@dataclass(frozen=True, slots=True)
class LaidOver:
    tree: dict[str, Any] = field(default_factory=dict)
    """As given, in DeepSpeed's documented spelling, 5e8 a whole number where DeepSpeed counts."""
    written: dict[str, str] = field(default_factory=dict)
    """Path in the tree -> config path as the user spelled it (deepspeed.bfloat16.enabled)."""
    problems: list[Diagnostic] = field(default_factory=list)
    """ZC160 what the plan follows from cannot be laid over, ZC161 two spellings of one key."""


def laid_over(free: Mapping[str, Any], plan: Plan) -> LaidOver:
    over = LaidOver()
    script_decides = tuple(f"{kind}." for kind in ("optimizer", "scheduler") if not getattr(plan, kind).type)
    decided = {path: home for path, home in DECIDED_BY_GROUPS.items() if not path.startswith(script_decides or ("\0",))}
    _lay(over, over.tree, free, "", "deepspeed.", decided)
    return over


def _lay(over: LaidOver, tree: dict[str, Any], given: Mapping[str, Any], prefix: str, written: str, decided: Mapping[str, str]) -> None:
    """prefix: where `tree` is, in documented spelling; written: the same as the user spelled it."""
    for spelled, value in given.items():
        # a dot in a name is the name's own (a module, self_attn.q_proj), never a path
        name = spelled if "." in spelled else canonical(prefix + spelled).rpartition(".")[2]
        path, here = prefix + name, written + spelled
        refused = [*_decided_elsewhere(path, here, value, decided)]
        over.problems.extend(refused)
        if refused:
            continue
        if isinstance(value, Mapping) and isinstance(tree.get(name, {}), Mapping):
            _lay(over, tree.setdefault(name, {}), value, f"{path}.", f"{here}.", decided)
        elif name in tree:
            message = f"{here}: deepspeed.{path} is given twice, in two spellings"
            over.problems.append(Diagnostic(code="ZC161", path=here, message=message, hint=f"~{here}"))
        else:
            tree[name] = coerce_whole(path, value)
            over.written[path] = here


def _decided_elsewhere(path: str, here: str, value: object, decided: Mapping[str, str]) -> Iterator[Diagnostic]:
    below = [key for key in decided if key.startswith(f"{path}.")]
    if isinstance(value, Mapping):
        homes = []
    elif path in decided:
        homes = [decided[path]]
    else:
        homes = sorted({decided[key] for key in below})  # a whole section would be replaced
    if homes:
        yield Diagnostic(
            code="ZC160",
            path=here,
            message=f"{here}={value} cannot be laid over: the rest of the plan follows from it",
            hint=", ".join(f"{home}=..." for home in homes) + " instead",
        )


_FREE = "deepspeed."
_IN_TEXT = re.compile(r"\bdeepspeed\.(?P<path>[\w.*-]*[\w*-])(?:=(?P<value>\"[^\"]*\"|\[[^\]]*\]|\{[^}]*\}|[^\s,;]+))?")
_FLAGS: dict[str, dict[str, str]] = {
    "fp16.enabled": {"true": "fp16", "false": "fp32"},
    "bf16.enabled": {"true": "bf16", "false": "fp32"},
    "bf16.bf16_master_weights_and_grads": {"true": "bf16", "false": "fp32"},
    "bf16.bf16_optimizer_states": {"true": "bf16", "false": "fp32"},
    "comms_logger.enabled": {"true": "comms", "false": "steps"},
}
"""Keys that are truth values in the JSON and a word in their group."""


def in_words_of_groups(found: Diagnostic, why: Mapping[str, Reason]) -> Diagnostic:
    """A problem of the JSON, told of the config keys that its values were written under, with a hint that can be pasted: what a group
    decides is set there, and a key that `deepspeed` does not have yet is added with a +. why: of each leaf of the JSON."""

    def taken_from(path: str) -> str:
        """The config key that a leaf of the JSON stands under; empty: no single one."""
        reason = why.get(path)
        return reason.config_path if reason is not None and reason == asked(reason.config_path) else ""

    def said(match: re.Match[str]) -> str:
        path, value = canonical(match["path"]), match["value"]
        key = taken_from(path) or DECIDED_BY_GROUPS.get(path, "")
        if value is None or not key:
            return key or (match[0] if value is None else f"+{match[0]}")
        return f"{key}={value if key.startswith(_FREE) else _FLAGS.get(path, {}).get(value, value)}"

    path = found.path.removeprefix(_FREE)
    if key := taken_from(path):
        message = found.message
        if not key.startswith(_FREE):
            for flag, word in _FLAGS.get(path, {}).items():
                message = message.replace(f"{found.path}={flag}", f"{key}={word}")
        found = replace(found, path=key, message=message.replace(found.path, key))
    return replace(found, hint=_IN_TEXT.sub(said, found.hint))
