"""Overrides -> a compiled run and every problem on the way: what all commands start from."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from zerocfg.artifact import CompiledRun
from zerocfg.cli.launcher_options import check_options
from zerocfg.compiler import examine
from zerocfg.compose import Composed, compose
from zerocfg.compose.paste import to_paste
from zerocfg.diagnostics import Diagnostic, has_errors, in_order
from zerocfg.facts import Detected
from zerocfg.plan import Plan
from zerocfg.probe.calibration import decide
from zerocfg.probe.installed import installed


@dataclass(frozen=True)
class Result:
    composed: Composed
    run: CompiledRun | None
    """None when there is any error."""
    diagnostics: list[Diagnostic]
    plan: Plan | None = None
    """Of a run with errors too; its sections may be stand-ins then."""


def examine_overrides(overrides: Sequence[str], config_path: str | None, config_name: str | None) -> Result:
    """Compose and compile. A config that did not compose at all is not compiled: only defaults would be judged."""
    composed = compose(overrides, config_path=config_path, config_name=config_name)
    if not composed.container:
        return Result(composed, None, in_order(composed.diagnostics))
    outcome = examine(
        composed.container, origins=composed.origins, detect=detect, environ=dict(os.environ), torch=installed("torch"), decide=decide
    )
    diagnostics = in_order(to_paste([*composed.diagnostics, *check_options(composed), *outcome.diagnostics], composed.origins))
    return Result(composed, None if has_errors(diagnostics) else outcome.run, diagnostics, outcome.plan)


def detect() -> Detected:
    from zerocfg.probe import detect as look  # only hardware=auto looks at this machine

    return look()
