"""An existing DeepSpeed config -> group overrides, with every leaf of it accounted for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zerocfg.deepspeed.check import check_deepspeed
from zerocfg.deepspeed.importer.autos import read_arguments, resolve_autos
from zerocfg.deepspeed.importer.express import Expression
from zerocfg.deepspeed.importer.migrate import Draft, migrate, refused_paths
from zerocfg.deepspeed.importer.result import Imported, ImportedEntry
from zerocfg.diagnostics import Diagnostic, Severity
from zerocfg.lowered import Leaf, flatten, nest
from zerocfg.provenance import rule

LARGEST_WORLD = 1024


def import_config(config: Mapping[str, Any], *, arguments: Sequence[str] = (), world_size: int | None = None) -> Imported:
    """Express `config` in groups.

    arguments: Trainer and launcher arguments given beside the file. world_size: the data-parallel ranks it ran on, for
    numbers that depend on them. Raises ConfigProblems for an argument that means nothing here.
    """
    trainer, launcher = read_arguments(arguments)
    draft = Draft.of(config)
    migrate(draft)
    resolve_autos(draft, trainer)
    refused: dict[str, Diagnostic] = {}
    _one_precision(draft, refused)
    _inactive_precision(draft, refused)
    sizes = world_sizes(draft.leaves)
    if not sizes or (world_size is not None and world_size not in sizes):
        _no_world(draft, refused, sizes, world_size)
    for _ in range(len(draft.leaves) + 1):
        found = [d for d in check_deepspeed(_nested(draft), world_size=world_size) if d.severity is Severity.ERROR]
        gone = {leaf: d for d in found for leaf in refused_paths(draft, d.path.removeprefix("deepspeed."))}
        if not gone:
            break
        for leaf, problem in gone.items():
            refused[leaf] = problem
            draft.leaves.pop(leaf)
    expression = Expression(draft)
    expression.values.update(launcher)
    if world_size is not None and not launcher:
        expression.values["hardware.gpus_per_node"] = world_size
    return Imported(
        groups=expression.groups,
        values=expression.values,
        kept=nest(Leaf(path, value, rule("import", "")) for path, value in expression.left.items()),
        entries=tuple(_account(config, draft, expression, refused)),
        world_sizes=tuple(sizes),
    )


def world_sizes(leaves: Mapping[str, Any]) -> list[int]:
    """Data-parallel sizes at which DeepSpeed's inference (config.py:607-656) comes out whole, up to LARGEST_WORLD."""
    names = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
    total, micro, steps = (leaves.get(name) for name in names)
    for value in (total, micro, steps):
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or value < 1 or value != int(value)):
            return []
    if total is None:
        return list(range(1, LARGEST_WORLD + 1))
    fits = []
    for world in range(1, min(LARGEST_WORLD, int(total)) + 1):
        unit = (micro or 1) * (steps or 1) * world
        if (total == unit) if micro and steps else total % unit == 0:
            fits.append(world)
    return fits


def _nested(draft: Draft) -> dict[str, Any]:
    return nest(Leaf(path, value, rule("import", "")) for path, value in draft.leaves.items())


def _one_precision(draft: Draft, refused: dict[str, Diagnostic]) -> None:
    if draft.leaves.get("fp16.enabled") is True and draft.leaves.get("bf16.enabled") is True:
        for path in [p for p in draft.leaves if p.startswith("fp16.")]:
            message = "fp16 and bf16 are both on: DeepSpeed refuses that; bf16 is taken"
            refused[path] = Diagnostic(code="ZC907", path=path, message=message, hint="precision=fp16 for the other")
            draft.leaves.pop(path)


def _inactive_precision(draft: Draft, refused: dict[str, Diagnostic]) -> None:
    for section in ("fp16", "bf16"):
        if draft.leaves.get(f"{section}.enabled") is True:
            continue
        for path in [p for p in draft.leaves if p.startswith(f"{section}.") and p != f"{section}.enabled"]:
            refused[path] = Diagnostic(code="ZC906", path=path, message=f"no effect while {section} is off", hint=f"precision={section}")
            draft.leaves.pop(path)


def _no_world(draft: Draft, refused: dict[str, Diagnostic], sizes: list[int], world_size: int | None) -> None:
    path = "train_batch_size"
    if path not in draft.leaves:
        return
    numbers = " x ".join(str(draft.leaves.get(n, "?")) for n in ("train_micro_batch_size_per_gpu", "gradient_accumulation_steps"))
    where = f"on {world_size} ranks" if sizes else "on any number of ranks"
    allowed = f"; it fits {', '.join(map(str, sizes[:8]))} ranks" if sizes else ""
    message = f"train_batch_size={draft.leaves[path]} = {numbers} x ranks has no whole solution {where}{allowed}"
    refused[path] = Diagnostic(code="ZC905", path=path, message=message, hint="batch.global_batch_size=micro x accumulation x ranks")
    draft.leaves.pop(path)


def _account(config: Mapping[str, Any], draft: Draft, expression: Expression, refused: Mapping[str, Diagnostic]) -> list[ImportedEntry]:
    by_spelling = {spelled: path for path, spelled in draft.origin.items()}
    kept = set(expression.left)
    entries = []
    for spelled, value in flatten(config):
        path = by_spelling.get(spelled, spelled)
        moved = draft.moved.get(spelled)
        if path in refused:
            problem = refused[path]
            reason = problem.message + (f"; {problem.hint}" if problem.hint else "")
            entries.append(ImportedEntry(path=spelled, value=value, outcome="refused", code=problem.code, reason=reason))
        elif moved is not None:
            entries.append(ImportedEntry(path=spelled, value=value, outcome="migrated", code=moved[0], reason=moved[1]))
        elif path in expression.said:
            entries.append(ImportedEntry(path=spelled, value=value, outcome="expressed", code="", reason=expression.said[path]))
        elif path in kept:
            entries.append(ImportedEntry(path=spelled, value=value, outcome="kept", code="", reason="no group says it; under `deepspeed`"))
        else:
            raise AssertionError(f"{spelled} is not accounted for")
    return entries
