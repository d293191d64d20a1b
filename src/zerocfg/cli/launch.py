"""zerocfg launch: run a script without Hydra."""

from __future__ import annotations

import dataclasses
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from zerocfg.cli import output
from zerocfg.cli.compile import TARGETS
from zerocfg.cli.outcome import examine_overrides
from zerocfg.compose import Composed, compose
from zerocfg.diagnostics import Diagnostic, has_errors, in_order
from zerocfg.facts import Detected
from zerocfg.launch.options import LocalOptions
from zerocfg.launch.plain import check_folder, folder_problem, prepare_plain, run_here
from zerocfg.launch.plain_check import check_json_reaches, check_program

_LAUNCHER = "hydra/launcher"
O = TypeVar("O", bound=LocalOptions)


def launch_command(
    overrides: Sequence[str],
    words: Sequence[str],
    *,
    target: str | None = None,
    out: str | None = None,
    config_path: str | None = None,
    config_name: str | None = None,
) -> int:
    """Compile, check, run. words: what followed `--`. target: None leaves hydra/launcher as it is composed.

    The exit status is the script's: of the rank that failed first, 128 + N for one that signal N ended; 1 for problems that
    were found before a start, 130 and 143 after Ctrl-C and SIGTERM.
    """
    if target not in (None, *TARGETS):
        output.say(f"--target {target}: one of {', '.join(TARGETS)}")
        return 2
    if target is not None:
        overrides = [f"{_LAUNCHER}=zerocfg_{target}", *overrides]
    found = list(check_program(words))
    if not has_errors(found):
        found += check_json_reaches(words)
    composed = compose(overrides, config_path=config_path, config_name=config_name)
    if has_errors(composed.diagnostics) or not composed.container:
        found += examine_overrides(overrides, config_path, config_name).diagnostics
    if not words or has_errors(composed.diagnostics) or not composed.container:
        return _refused([*found, *composed.diagnostics])
    logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stderr)
    folder = Path(out) if out is not None else None
    options = options_of(composed, LocalOptions, "ZerocfgLocalLauncher")
    if isinstance(options, Diagnostic):
        return _refused([*found, *composed.diagnostics, options])
    prepared = prepare_plain(composed.cfg, overrides, words, folder=folder, start=not options.dry_run, detect=_detect)
    found += [*composed.diagnostics, *(d for _, several in prepared.report for d in several)]
    for job in prepared.jobs:
        found += check_folder(job.folder)
    if has_errors(found):
        return _refused(found)
    output.report(_once(found))
    (job,) = prepared.jobs
    try:
        return run_here(job, options, words, detect=_detect)
    except SystemExit as stop:
        return int(stop.code or 0)
    except OSError as error:
        raise folder_problem(job.folder, error) from error


def _refused(found: Sequence[Diagnostic]) -> int:
    output.report(_once(found))
    output.say("nothing was started")
    return 1


def _once(found: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Composing reports some problems twice, with and without who decided."""
    kept: dict[tuple[str, str, str], Diagnostic] = {}
    for diagnostic in in_order(found):
        kept.setdefault((diagnostic.code, diagnostic.path, diagnostic.message), diagnostic)
    return list(kept.values())


def options_of(composed: Composed, kind: type[O], launcher: str) -> O | Diagnostic:
    """hydra.launcher as its options; ZC750 where another launcher was chosen."""
    node = composed.cfg.hydra.launcher
    target = str(OmegaConf.select(node, "_target_"))
    names = {field.name for field in dataclasses.fields(kind)}
    try:
        plain = cast("dict[str, Any]", OmegaConf.to_container(node, resolve=True))
    except OmegaConfBaseException as problem:
        first = str(problem).partition("\n")[0]
        return Diagnostic(code="ZC756", path="hydra.launcher", message=f"hydra.launcher cannot be resolved: {first}", hint="a plain value")
    if not target.endswith(f".{launcher}"):
        return Diagnostic(
            code="ZC756",
            path=_LAUNCHER,
            message=f"{_LAUNCHER} is none of zerocfg's launchers: {target}",
            hint="--target local, or --target slurm",
        )
    return kind(**{name: value for name, value in plain.items() if name in names})


def _detect() -> Detected:
    from zerocfg.probe import detect

    return detect()
