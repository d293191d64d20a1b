"""zerocfg check: all problems of a config, nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from zerocfg.cli import output
from zerocfg.cli.outcome import examine_overrides


def check_command(
    overrides: Sequence[str], *, as_json: bool = False, config_path: str | None = None, config_name: str | None = None
) -> int:
    """Report every problem. as_json: a list of {code, severity, path, message, hint} on stdout, empty for a clean config."""
    result = examine_overrides(overrides, config_path, config_name)
    if as_json:
        output.report_json(result.diagnostics)
    elif result.diagnostics:
        output.report(result.diagnostics)
    else:
        output.say("no problems found")
    return 0 if result.run is not None else 1
