"""zerocfg diff: what changes for the run between two DeepSpeed JSONs, two override sets, or one of each."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from zerocfg.cli import output
from zerocfg.cli.import_ import read_file
from zerocfg.deepspeed.check import check_deepspeed
from zerocfg.deepspeed.effective import Difference, differences, effective, run_differences
from zerocfg.deepspeed.importer import modern
from zerocfg.diagnostics import ConfigProblems, Diagnostic, Severity

SAME, DIFFERENT, TROUBLE = 0, 1, 2
"""Exit statuses, as diff(1)."""
_WIDEST = 60


@dataclass(frozen=True)
class Side:
    """One of the two."""

    deepspeed: Mapping[str, Any]
    world_size: int | None = None
    torchrun: Mapping[str, Any] | None = None
    """None: a JSON, which says nothing of it."""
    environment: Mapping[str, Any] | None = None
    file: Mapping[str, Any] | None = None
    """What stands in the JSON, before old spellings are read as today's."""

    def problems(self, name: str) -> list[Diagnostic]:
        """What DeepSpeed ignores in the file, or fails on: none of it is compared. An "auto" stands in the list of differences."""
        found = check_deepspeed(self.file, world_size=None, prefix=name) if self.file is not None else []
        return [
            replace(problem, severity=Severity.WARNING)
            for problem in found
            if problem.severity is Severity.ERROR and problem.code != "ZC623"
        ]


def diff_command(
    first: str,
    second: str,
    *,
    world_size: int | None = None,
    as_json: bool = False,
    config_path: str | None = None,
    config_name: str | None = None,
) -> int:
    """Compare after DeepSpeed's defaults; 0 the same, 1 different, 2 trouble.

    as_json: {"deepspeed": [{path, a, b}], "torchrun": [...], "environment": [...]}; null: not in effect. With trouble the list that
    `check --json` prints.
    """
    try:
        sides = [read_side(word, config_path, config_name) for word in (first, second)]
    except ConfigProblems as problem:
        output.report(problem.diagnostics)
        if as_json:
            output.report_json(problem.diagnostics)
        return TROUBLE
    found = compare(sides[0], sides[1], world_size)
    output.report([problem for name, side in zip("ab", sides, strict=True) for problem in side.problems(name)])
    if as_json:
        output.product_json({name: [difference.as_dict() for difference in part] for name, part in found.items()})
    elif text := rendered(found):
        output.product(text)
    else:
        output.say("no difference for the run")
    return DIFFERENT if any(found.values()) else SAME


def read_side(word: str, config_path: str | None, config_name: str | None) -> Side:
    """A file that is there, or overrides in one quoted text; an empty text is the config without overrides."""
    if word.strip() and (Path(word).exists() or not ("=" in word or word.lstrip().startswith("~"))):
        file = read_file(word)
        return Side(modern(file), file=file)
    from zerocfg.cli.outcome import examine_overrides  # a pair of files needs no Hydra

    try:
        overrides = shlex.split(word)
    except ValueError as error:
        hint = "zerocfg diff 'parallelism=zero2 optimizer.lr=1e-4' ds_config.json"
        raise ConfigProblems([Diagnostic(code="ZC932", message=f"{word} is no list of overrides: {error}", hint=hint)]) from None
    result = examine_overrides(overrides, config_path, config_name)
    if result.run is None:
        raise ConfigProblems(result.diagnostics)
    run = result.run
    return Side(run.deepspeed, run.plan.topology.world_size, _options(run.torchrun), run.environment)


def _options(arguments: Sequence[str]) -> dict[str, Any]:
    """--name value and --name=value -> name: value; a flag is true."""
    found: dict[str, Any] = {}
    rest = list(arguments)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if not equals and rest and not rest[0].startswith("-"):
            value = rest.pop(0)
        found[name.lstrip("-")] = value if equals or value else True
    return found


def compare(before: Side, after: Side, world_size: int | None) -> dict[str, list[Difference]]:
    """world_size: of a JSON; else a JSON is taken to run on as many ranks as the other side."""
    known = world_size or before.world_size or after.world_size
    effects = [effective(side.deepspeed, world_size=side.world_size or known) for side in (before, after)]
    found = {"deepspeed": run_differences(*effects), "torchrun": [], "environment": []}
    if before.torchrun is not None and after.torchrun is not None:
        found["torchrun"] = differences(before.torchrun, after.torchrun)
        found["environment"] = differences(before.environment or {}, after.environment or {})
    return found


def rendered(found: Mapping[str, Sequence[Difference]]) -> str:
    """One aligned line a difference; empty for none."""
    lines = [(_path(section, item.path), _shown(item.before), _shown(item.after)) for section, part in found.items() for item in part]
    left = max((len(path) for path, _, _ in lines), default=0)
    middle = min(40, max((len(before) for _, before, _ in lines), default=0))
    return "\n".join(f"{path:<{left}}  {before:<{middle}}  ->  {after}" for path, before, after in lines)


def _path(section: str, path: str) -> str:
    return path if section == "deepspeed" else f"{section}.{path}"


def _shown(value: Any) -> str:
    if value is None:
        return "(not in effect)"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= _WIDEST else text[: _WIDEST - 3] + "..."
