"""The free `deepspeed` mapping, laid over the emitted JSON last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from zerocfg.deepspeed.coerce import coerce_whole
from zerocfg.deepspeed.keys import canonical
from zerocfg.diagnostics import Diagnostic
from zerocfg.passes.lower.deepspeed import DECIDED_BY_GROUPS
from zerocfg.plan import Plan


@dataclass(frozen=True, slots=True)
class LaidOver:
    tree: dict[str, Any] = field(default_factory=dict)
    """As given, in DeepSpeed's documented spelling, 5e8 a whole number where DeepSpeed counts."""
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
