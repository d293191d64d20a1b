"""zerocfg from Python, without a command or a launcher."""

from __future__ import annotations

import os
from collections.abc import Sequence

from zerocfg.artifact import CompiledRun
from zerocfg.compiler import examine
from zerocfg.compose import compose
from zerocfg.diagnostics import ConfigProblems, has_errors, in_order
from zerocfg.probe import detect
from zerocfg.probe.calibration import decide
from zerocfg.probe.installed import installed


def compile(overrides: Sequence[str] = (), *, config_path: str | None = None, config_name: str | None = None) -> CompiledRun:
    """What `zerocfg compile OVERRIDES` prints, as an object: `deepspeed` (for deepspeed.initialize), `torchrun`, `environment`,
    `resources`, `plan`, and in `diagnostics` warnings and notes.

    config_path, config_name: as the command's options. Raises ConfigProblems with all problems where there is an error.
    """
    composed = compose(overrides, config_path=config_path, config_name=config_name)
    found, run = list(composed.diagnostics), None
    if composed.container:
        environ, torch = dict(os.environ), installed("torch")
        outcome = examine(composed.container, origins=composed.origins, detect=detect, environ=environ, torch=torch, decide=decide)
        found, run = [*found, *outcome.diagnostics], outcome.run
    if run is None or has_errors(found):
        raise ConfigProblems(in_order(found))
    return run
