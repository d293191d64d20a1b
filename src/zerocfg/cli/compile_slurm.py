"""zerocfg compile --target slurm: the sbatch script of one run."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from zerocfg.cli.launcher_options import launcher_options
from zerocfg.cli.outcome import Result
from zerocfg.compiler import examine
from zerocfg.compose import Composed, compose
from zerocfg.compose.paste import to_paste
from zerocfg.diagnostics import Diagnostic, has_errors, in_order
from zerocfg.launch.options import LocalOptions
from zerocfg.launch.read_options import GROUP, decided
from zerocfg.launch.slurm_cluster import read_cluster
from zerocfg.launch.slurm_options import SlurmOptions
from zerocfg.launch.slurm_place import Placement
from zerocfg.launch.slurm_script import SLURM_DIR, Start, sbatch_script
from zerocfg.probe.calibration import decide
from zerocfg.probe.installed import installed


def examine_for_slurm(
    overrides: Sequence[str], config_path: str | None, config_name: str | None, *, out: Path | None
) -> tuple[Result, str]:
    """Compose, compile and lower for the cluster whose commands are here, if any. Returns the script too, empty with errors.

    out: folder that holds compiled/; None: the one that a launch would make now.
    """
    if not any(text.lstrip("+").startswith(f"{GROUP}=") for text in overrides):
        overrides = [f"{GROUP}=zerocfg_slurm", *overrides]
    composed = compose(overrides, config_path=config_path, config_name=config_name)
    found = list(composed.diagnostics)
    options, wrong = _options(composed) if composed.container else (None, [])
    found += wrong
    if options is None:
        return Result(composed, None, in_order(found)), ""
    placement = Placement(options, read_cluster())
    outcome = examine(
        composed.container,
        origins=composed.origins,
        detect=lambda: placement.machine.detected,
        environ=dict(os.environ),
        torch=installed("torch"),
        decide=decide,
    )
    found += to_paste(outcome.diagnostics, composed.origins)
    if outcome.run is None:
        return Result(composed, None, in_order(found)), ""
    asked = composed.container.get("hardware", {}).get("accelerator") is not None
    shape, problems = placement.shape(outcome.run, str(composed.cfg.hydra.job.name), accelerator_asked=asked)
    found += decided(problems, composed.cfg)
    if has_errors(found):
        return Result(composed, None, in_order(found)), ""
    start = Start(python=options.python or sys.executable, home=os.getcwd(), takes_arguments=True, preflight=options.preflight)
    folder = Path(os.path.abspath(out if out is not None else Path(str(composed.cfg.hydra.sweep.dir)) / "0"))
    text = sbatch_script(shape, [folder], folder if out is not None else folder.parent / SLURM_DIR, start)
    return Result(composed, outcome.run, in_order(found)), text


def _options(composed: Composed) -> tuple[SlurmOptions | None, list[Diagnostic]]:
    options, wrong = launcher_options(composed, "ZC723")
    if isinstance(options, LocalOptions):
        problem = Diagnostic(
            code="ZC723",
            path=GROUP,
            message=f"--target slurm, but {GROUP} is another launcher: zerocfg_local",
            hint=f"{GROUP}=zerocfg_slurm, or without it",
        )
        return None, [problem]
    return options, wrong
