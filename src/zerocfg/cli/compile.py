"""zerocfg compile: what would be run."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from zerocfg.artifact import CompiledRun
from zerocfg.cli import output
from zerocfg.cli.outcome import examine_overrides
from zerocfg.diagnostics import Diagnostic


def compile_command(
    overrides: Sequence[str],
    *,
    out: str | None = None,
    force: bool = False,
    as_json: bool = False,
    config_path: str | None = None,
    config_name: str | None = None,
) -> int:
    """Print the run, and write it to OUT/compiled when asked.

    as_json: stdout holds exactly {"deepspeed": {}, "torchrun": [], "environment": {}, "resources": {}}; with errors it holds the
    list that `check --json` prints, and the status is 1, so that stdout can always be parsed.
    """
    result = examine_overrides(overrides, config_path, config_name)
    problems = list(result.diagnostics)
    if result.run is not None and out is not None:
        problems += write_out(result.run, Path(out), force=force)
    output.report(problems)
    if result.run is None or len(problems) > len(result.diagnostics):
        if as_json:
            output.report_json(problems)
        return 1
    if as_json:
        output.product_json(result.run.as_dict())
    else:
        output.product(sections(result.run))
    return 0


def sections(run: CompiledRun) -> str:
    """The four products, each under its name; the environment can be pasted after `env`."""
    parts = {
        "deepspeed": json.dumps(run.deepspeed, indent=2, allow_nan=False),
        "torchrun": "\n".join(shlex.quote(word) for word in run.torchrun),
        "environment": "\n".join(f"{name}={shlex.quote(value)}" for name, value in run.environment.items()),
        "resources": "\n".join(f"{name} = {value}" for name, value in asdict(run.resources).items()),
    }
    return "\n\n".join(f"[{name}]\n{text}" for name, text in parts.items())


def write_out(run: CompiledRun, directory: Path, *, force: bool) -> list[Diagnostic]:
    """Write directory/compiled. Everything is written beside it first: files that differ are replaced only with `force` (ZC181)."""
    import tempfile

    from zerocfg.emit import COMPILED, write_compiled

    target = directory / COMPILED
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if target.is_symlink():
            return [_refused(f"{target} is a link: nothing is written outside of {directory}", "another --out DIR")]
        with tempfile.TemporaryDirectory(prefix=".zerocfg-", dir=directory) as draft:
            write_compiled(run, Path(draft) / COMPILED, program=None)
            drafts = sorted((Path(draft) / COMPILED).iterdir())
            differ = [new.name for new in drafts if _differs(new, target / new.name)]
            if differ and not force:
                return [_refused(f"{target} holds other files of the same names: {', '.join(differ)}", "--force, or another --out DIR")]
            target.mkdir(exist_ok=True)
            for new in drafts:
                os.replace(new, target / new.name)
    except OSError as error:
        return [_refused(f"--out {directory} cannot be written: {error.strerror or error}", "a folder that you may write")]
    return []


def _differs(new: Path, old: Path) -> bool:
    return os.path.lexists(old) and (old.is_symlink() or not old.is_file() or old.read_bytes() != new.read_bytes())


def _refused(message: str, hint: str) -> Diagnostic:
    return Diagnostic(code="ZC181", path="", message=message, hint=hint)
