"""An existing DeepSpeed config -> group overrides, with every leaf of it accounted for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from zerocfg.deepspeed.check import check_deepspeed
from zerocfg.deepspeed.importer.arguments import Arguments, read_arguments, two_worlds
from zerocfg.deepspeed.importer.autos import resolve_autos
from zerocfg.deepspeed.importer.draft import Draft, join, leaves_of, nested
from zerocfg.deepspeed.importer.express import Expression, express
from zerocfg.deepspeed.importer.learning import optimizer, scheduler
from zerocfg.deepspeed.importer.migrate import migrate, migrate_values
from zerocfg.deepspeed.importer.plan_rules import allowed_world_sizes, refuse_by_plan, tensor_parallel_batch
from zerocfg.deepspeed.importer.refuse import refuse_errors, refuse_inert, writes_missing
from zerocfg.deepspeed.importer.result import Imported, ImportedEntry
from zerocfg.deepspeed.importer.world import TOTAL
from zerocfg.diagnostics import ConfigProblems, Diagnostic, Severity

__all__ = ["Imported", "ImportedEntry", "import_config", "modern"]

_GPUS_A_NODE = 8


def import_config(
    config: Mapping[str, Any],
    *,
    arguments: Sequence[str] = (),
    script: Sequence[str] = (),
    world_size: int | None = None,
    model: Mapping[str, str] | None = None,
) -> Imported:
    """Express `config` in groups.

    arguments: the Trainer's and the launcher's, given beside the file; script: the same, where unknown ones are only noted.
    world_size: ranks it ran on, for numbers that depend on them. model: overrides that describe the model ({"model":
    "llama2_7b"}), from which sizes left "auto" follow; without them DeepSpeed's own sizes. Raises ConfigProblems for
    arguments that mean nothing here or contradict the file.
    """
    given = read_arguments(arguments, script)
    world = _world(given, world_size)
    draft = Draft.of(config)
    migrate(draft)
    notes = resolve_autos(draft, given, described=model is not None)
    migrate_values(draft)
    notes += _missing(draft, world)
    refuse_errors(draft, world)
    refuse_by_plan(draft)
    left = refuse_errors(draft, world)  # what needed a value that the plan does not take
    sizes = allowed_world_sizes(draft)
    tensor_parallel_batch(draft, world)
    refuse_inert(draft)
    any_size = TOTAL not in draft.leaves and not {TOTAL} & set(draft.refused)
    understood = dict(draft.leaves)
    expression = Expression(draft, described=model is not None)
    if given.trainer.get("max_steps", -1) > 0:
        expression.values["train.steps"] = given.trainer["max_steps"]
    express(expression, (optimizer, scheduler))
    values = {**_hardware(given, world), **_model_values(model), **expression.values}
    return Imported(
        groups={"model": (model or {}).get("model", "none"), **expression.groups},
        values=values,
        kept=nested(draft.leaves),
        understood=nested({path: value for path, value in understood.items() if path in expression.said or path in draft.leaves}),
        entries=tuple(_account(config, draft, expression)),
        world_sizes=tuple(sizes),
        any_world_size=any_size,
        notes=(*left, *notes),
    )


def modern(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config in today's spellings, texts for numbers as numbers; nothing else is changed."""
    draft = Draft.of(config)
    migrate(draft)
    migrate_values(draft)
    return nested(draft.leaves)


def _world(given: Arguments, world_size: int | None) -> int | None:
    if world_size is not None and given.world is not None and given.world != world_size:
        raise ConfigProblems([two_worlds("--world-size", world_size, "the launcher's arguments", given.world)])
    return given.world if world_size is None else world_size


def _hardware(given: Arguments, world: int | None) -> dict[str, Any]:
    """What the launcher was told; else nodes of eight for a world that no single machine holds."""
    values: dict[str, Any] = {}
    nodes, gpus = given.num_nodes, given.gpus_per_node
    if gpus is None and world is not None:
        if nodes is None:
            nodes = world // _GPUS_A_NODE if world > _GPUS_A_NODE and world % _GPUS_A_NODE == 0 else 1
        gpus = world // nodes
    if nodes is not None and nodes > 1:
        values["hardware.num_nodes"] = nodes
    if gpus is not None:
        values["hardware.gpus_per_node"] = gpus
    return values


def _model_values(model: Mapping[str, str] | None) -> dict[str, str]:
    return {path: value for path, value in (model or {}).items() if path != "model"}


def _missing(draft: Draft, world: int | None) -> list[Diagnostic]:
    """What the file leaves out although DeepSpeed wants it, or although its default moved; a group writes it."""
    notes = []
    for problem in check_deepspeed(nested(draft.leaves), world_size=world, prefix=""):
        if problem.code == "ZC640":
            hint = "batch.micro_batch_size=N, or --per_device_train_batch_size N beside the file; without it 1 is taken"
            notes.append(replace(problem, severity=Severity.WARNING, hint=hint))
        elif problem.code == "ZC657" and problem.path not in draft.leaves and writes_missing(draft, problem):
            hint = f"scheduler.{problem.path.rpartition('.')[2]}=VALUE; without it the group chooses (zerocfg explain scheduler)"
            notes.append(replace(problem, severity=Severity.WARNING, hint=hint))
        elif problem.code == "ZC671" and problem.severity is Severity.WARNING:
            notes.append(problem)  # the others change nothing of what is computed
    return notes


def _account(config: Mapping[str, Any], draft: Draft, expression: Expression) -> list[ImportedEntry]:
    by_spelling = {spelled: path for path, spelled in draft.sources.items()}
    entries = []
    for names, value in leaves_of(config):
        spelled = join(names)
        path = by_spelling.get(spelled, spelled)
        refused, migrated = draft.refused.get(spelled), draft.migrated.get(spelled)
        said = expression.said.get(path) if spelled in by_spelling else None
        if refused is not None:
            entry = ImportedEntry(path=spelled, value=value, outcome="refused", code=refused[0], reason=refused[1])
        elif migrated is not None:
            where = f"; {said}" if said else ("; under deepspeed" if path in draft.leaves and spelled in by_spelling else "")
            entry = ImportedEntry(path=spelled, value=value, outcome="migrated", code=migrated[0], reason=migrated[1] + where)
        elif said is not None:
            entry = ImportedEntry(path=spelled, value=value, outcome="expressed", code="", reason=said)
        elif path in draft.leaves:
            entry = ImportedEntry(path=spelled, value=value, outcome="kept", code="", reason="no group says it; under deepspeed")
        else:
            raise AssertionError(f"{spelled} is not accounted for")
        entries.append(entry)
    return entries
