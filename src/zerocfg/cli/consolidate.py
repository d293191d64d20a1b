"""zerocfg consolidate: one file of whole weights out of a checkpoint."""

from __future__ import annotations

from pathlib import Path

from zerocfg.cli import output
from zerocfg.diagnostics import ConfigProblems, Diagnostic
from zerocfg.emit import COMPILED
from zerocfg.runtime.checkpoint_files import LATEST, Checkpoint, read, survey
from zerocfg.runtime.checkpoint_start import locate
from zerocfg.runtime.consolidate import FOLDER, consolidate

DTYPES = ("fp32", "bf16")


def consolidate_command(run: str, *, tag: str | None = None, out: str | None = None, dtype: str = "fp32", safetensors: bool = True) -> int:
    """Write the weights of the newest whole checkpoint of `run`, or of `tag`, to `out` (default: RUN/weights).

    run: a job's folder, a folder of checkpoints, or one checkpoint. The line about it goes to stdout.
    """
    try:
        if dtype not in DTYPES:
            raise ConfigProblems([Diagnostic(code="ZC183", message=f"--dtype {dtype} is not {' or '.join(DTYPES)}", hint="--dtype bf16")])
        for last in (False, False, True):
            checkpoint = _chosen(run, tag)
            target = Path(out) if out is not None else _beside(Path(run), checkpoint)
            try:
                output.product(consolidate(checkpoint, target, dtype=dtype, safetensors=safetensors))
                break
            except ConfigProblems:
                if last or checkpoint.path.is_dir():
                    raise
                # a run that goes on has dropped it for a newer one
    except ConfigProblems as problems:
        output.report(problems.diagnostics)
        return 1
    return 0


def _chosen(run: str, tag: str | None) -> Checkpoint:
    newest = locate(run, Path.cwd(), key="")
    if tag in (None, LATEST) or newest.path.name == tag:
        return newest
    found = read(newest.path.parent / tag)
    if isinstance(found, Checkpoint):
        return found
    whole, _ = survey(newest.path.parent)
    there = ", ".join(checkpoint.path.name for checkpoint in whole)
    raise ConfigProblems(
        [Diagnostic(code="ZC183", message=f"--tag {tag}: {found}", detail=(f"whole: {there}",), hint=f"--tag {newest.path.name}")]
    )


def _beside(run: Path, checkpoint: Checkpoint) -> Path:
    """In the job's folder where that is known, else beside the checkpoints."""
    folder = checkpoint.path.parent
    job = next((path for path in (run, run / folder.parent.name, folder.parent) if (path / COMPILED).is_dir()), folder)
    return job / FOLDER
