"""zerocfg compile: what would be run."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from zerocfg.artifact import CompiledRun
from zerocfg.cli import output
from zerocfg.cli.outcome import examine_overrides
from zerocfg.diagnostics import Diagnostic

TARGETS = ("local", "slurm")
SBATCH = "sbatch.sh"
"""The script's name beside compiled/."""


def compile_command(
    overrides: Sequence[str],
    *,
    out: str | None = None,
    force: bool = False,
    as_json: bool = False,
    config_path: str | None = None,
    config_name: str | None = None,
    target: str | None = None,
) -> int:
    """Print the run, and write it to OUT/compiled when asked. target: slurm prints the sbatch script, and writes it to OUT/sbatch.sh.

    as_json: stdout holds exactly {"deepspeed": {}, "torchrun": [], "environment": {}, "resources": {}}, and "sbatch": "" for
    slurm; with errors it holds the
    list that `check --json` prints, and the status is 1, so that stdout can always be parsed.
    """
    if target not in (None, *TARGETS):
        output.say(f"--target {target}: one of {', '.join(TARGETS)}")
        return 2
    text = ""
    if target == "slurm":
        from zerocfg.cli.compile_slurm import examine_for_slurm

        result, text = examine_for_slurm(overrides, config_path, config_name, out=Path(out) if out is not None else None)
    else:
        result = examine_overrides(overrides, config_path, config_name)
    problems = list(result.diagnostics)
    if result.run is not None and out is not None:
        problems += write_out(
            result.run, Path(out), force=force, script=text, preflight=bool(text) and bool(result.composed.cfg.hydra.launcher.preflight)
        )
    output.report(problems)
    if result.run is None or len(problems) > len(result.diagnostics):
        if as_json:
            output.report_json(problems)
        return 1
    if as_json:
        output.product_json({**result.run.as_dict(), **({"sbatch": text} if text else {})})
    elif text:
        output.product(text.removesuffix("\n"))
    else:
        output.product(sections(result.run))
    if out is not None:
        start = shlex.quote(os.path.join(".", out, SBATCH if text else "compiled/launch.sh"))
        output.say(f"written to {shlex.quote(out)}: {'sbatch ' if text else ''}{start} SCRIPT.py ARGUMENTS")
    return 0


def sections(run: CompiledRun) -> str:
    """The products, each under its name; the environment, without secrets, can be pasted after `env`."""
    parts = {
        "deepspeed": json.dumps(run.deepspeed, indent=2, allow_nan=False),
        "torchrun": "\n".join(shlex.quote(word) for word in run.torchrun),
        "environment": "\n".join(f"{name}={shlex.quote(value)}" for name, value in run.open_environment.items()),
        "resources": "\n".join(f"{name} = {value}" for name, value in asdict(run.resources).items()),
        **({"container": "\n".join(run.container)} if run.container else {}),
    }
    return "\n\n".join(f"[{name}]\n{text}" for name, text in parts.items())


def write_out(run: CompiledRun, directory: Path, *, force: bool, script: str = "", preflight: bool = False) -> list[Diagnostic]:
    """Write directory/compiled, with preflight.sh where the script has one, and, for a script, directory/sbatch.sh.

    Everything is written beside it first: files that differ are replaced only with `force` (ZC181).
    """
    import tempfile

    from zerocfg.emit import COMPILED, replace_text, write_compiled
    from zerocfg.launch.fitness import write_preflight
    from zerocfg.launch.paths import JobPaths

    target = directory / COMPILED
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if target.is_symlink():
            return [_refused(f"{target} is a link: nothing is written outside of {directory}", "another --out DIR")]
        with tempfile.TemporaryDirectory(prefix=".zerocfg-", dir=directory) as draft:
            write_compiled(run, Path(draft) / COMPILED, program=None, job=directory)
            if preflight:
                write_preflight(run, JobPaths(Path(draft)), sys.executable)
            drafts = sorted((Path(draft) / COMPILED).iterdir())
            differ = [new.name for new in drafts if _differs(new, target / new.name)]
            sbatch = directory / SBATCH
            if script and sbatch.exists() and sbatch.read_text(encoding="utf-8") != script:
                differ.append(sbatch.name)
            if differ and not force:
                return [_refused(f"{target} holds other files of the same names: {', '.join(differ)}", "--force, or another --out DIR")]
            target.mkdir(exist_ok=True)
            for new in drafts:
                os.replace(new, target / new.name)
            if script:
                replace_text(sbatch, script, mode=0o700)
    except OSError as error:
        return [_refused(f"--out {directory} cannot be written: {error.strerror or error}", "a folder that you may write")]
    return []


def _differs(new: Path, old: Path) -> bool:
    return os.path.lexists(old) and (old.is_symlink() or not old.is_file() or old.read_bytes() != new.read_bytes())


def _refused(message: str, hint: str) -> Diagnostic:
    return Diagnostic(code="ZC181", path="", message=message, hint=hint)
