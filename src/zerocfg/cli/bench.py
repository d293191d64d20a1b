"""zerocfg bench comm: what the collectives reach on this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from zerocfg.bench.collectives import OPS, size_text
from zerocfg.bench.comm import RESULT, check, judge, measure, measured_in, program, rows
from zerocfg.bench.curve import CommCurve, together, write_curve
from zerocfg.cli import output
from zerocfg.cli.compile import TARGETS
from zerocfg.cli.outcome import detect, examine_overrides
from zerocfg.compose import Composed
from zerocfg.diagnostics import Diagnostic, Severity, has_errors
from zerocfg.launch.preflight import check_machine
from zerocfg.probe.links import curve_file
from zerocfg.units import counted


def comm_command(
    overrides: Sequence[str],
    *,
    backend: str | None = None,
    sizes: str | None = None,
    ops: str | None = None,
    out: str | None = None,
    target: str | None = None,
    plot: str | None = None,
    as_json: bool = False,
    config_path: str | None = None,
    config_name: str | None = None,
) -> int:
    """Measure, print a table, write the curves. Exit status 1 when the ranks fail or a result is wrong; slow is a warning.

    as_json: {curves, rows, problems, files}. out: with several backends, each one's name goes before the suffix. target: slurm runs
    it as a job, in hydra.sweep.dir.
    """
    if target not in (None, *TARGETS):
        output.say(f"--target {target}: one of {', '.join(TARGETS)}")
        return 2
    launched = target == "slurm"
    if launched:
        from zerocfg.cli.compile_slurm import examine_for_slurm

        overrides = ["hydra/launcher=zerocfg_slurm", *overrides, "hydra.launcher.wait=true", "hydra.launcher.dry_run=false"]
        result, _ = examine_for_slurm(overrides, config_path, config_name, out=None)
    else:
        result = examine_overrides(overrides, config_path, config_name)
    # the machine counts, not whether some model would train on it
    errors = [found for found in result.diagnostics if found.severity is Severity.ERROR]
    if result.run is None:
        _report(errors, as_json)
        return 1
    backends = (backend or ("nccl" if result.run.plan.hardware.is_cuda else "gloo")).split(",")
    chosen = ops.split(",") if ops is not None else list(OPS)
    if wrong := list(check(result.run, backends, sizes, chosen, launched=launched)):
        _report(wrong, as_json)
        return 1
    if launched:
        folder = Path(os.path.abspath(str(result.composed.cfg.hydra.sweep.dir)))
        if status := _launched(result.composed, overrides, program(backends, sizes, chosen, folder / RESULT), folder):
            if as_json:  # the rest has been told
                _report([Diagnostic(code="ZC873", message=f"the job failed, status {status}", hint=f"the logs in {folder}")], as_json)
            return status
        curves = measured_in(folder)
    else:
        here = check_machine(result.run.plan, detect(), os.environ) if "nccl" in backends else ()
        if absent := [found for found in here if found.severity is Severity.ERROR]:
            _report(absent, as_json)
            return 1
        curves = measure(result.run, backends, sizes, chosen)
    problems = [found for curve in curves for found in judge(curve, {**os.environ, **result.run.environment})]
    files: dict[Path, str] = {}
    for curve in curves:
        file = _file(curve, out, several=len(curves) > 1)
        kept = curve if out else together(curve, file)
        try:
            write_curve(kept, file)
            files[file] = ", which zerocfg plan goes by" if not out and kept.serves_planner() else ""
        except OSError as problem:  # what was measured is told all the same
            message = f"{file} cannot be written: {problem.strerror or problem}"
            problems.append(Diagnostic(code="ZC875", message=message, hint="--out FILE in a folder that you may write"))
    if as_json:
        output.product_json(
            {
                "curves": [curve.as_dict() for curve in curves],
                "rows": [row for curve in curves for row in rows(curve)],
                "problems": [found.as_dict() for found in problems],
                "files": [str(file) for file in files],
            }
        )
    else:
        output.product("\n".join(table(curves)))
        output.report(problems)
        for file, use in files.items():
            output.say(f"written to {file}{use}")
    if plot is not None:
        from zerocfg.cli.plots import draw
        from zerocfg.cli.plots_machine import comm_plot

        if status := draw(plot, lambda file: comm_plot(curves, file)):
            return status
    return 1 if has_errors(problems) else 0


def _launched(composed: Composed, overrides: Sequence[str], words: Sequence[str], folder: Path) -> int:
    """Run the ranks as a job; what they and the launcher say goes to stderr. Returns the exit status."""
    from zerocfg.cli.launch import start

    (folder / RESULT).unlink(missing_ok=True)
    with redirect_stdout(sys.stderr):
        return start(composed, overrides, words, (), out=str(folder))


def _report(problems: Sequence[Diagnostic], as_json: bool) -> None:
    if as_json:
        output.product_json({"curves": [], "rows": [], "problems": [found.as_dict() for found in problems], "files": []})
    else:
        output.report(problems)


def _file(curve: CommCurve, out: str | None, *, several: bool) -> Path:
    if out is None:
        return curve_file(curve.gpu, curve.world, curve.nodes, curve.backend)
    path = Path(out)
    return path.with_name(f"{path.stem}-{curve.backend}{path.suffix}") if several else path


def table(curves: Sequence[CommCurve]) -> list[str]:
    """A block a collective, backends beside each other."""
    lines = []
    for curve in curves:
        rate = f", {curve.link} {curve.link_gbps:g} GB/s a direction" if curve.link_gbps else ""
        where = f"{curve.world} x {curve.gpu}" if curve.gpu != "cpu" else f"{counted(curve.world, 'process')} on the CPU"
        lines.append(f"{curve.backend}: {where}{rate}; {curve.version}")
    by_key: dict[tuple[str, int], dict[str, dict[str, Any]]] = {}
    for curve in curves:
        for row in rows(curve):
            by_key.setdefault((row["op"], row["bytes"]), {})[curve.backend] = row
    for op in dict.fromkeys(op for op, _ in by_key):
        head = [
            f"{'us':>11} {'algbw':>8} {'busbw':>8} {'of link':>8}" if curve.link_gbps else f"{'us':>11} {'algbw':>8} {'busbw':>8}"
            for curve in curves
        ]
        titles = [f"{curve.backend:>{len(part)}}" for curve, part in zip(curves, head, strict=True)]
        lines += ["", f"{op:<16}" + " |".join(titles) if len(curves) > 1 else op, f"{'':<16}" + " |".join(head)]
        for size in sorted(size for name, size in by_key if name == op):
            found = by_key[op, size]
            parts = [_cells(found.get(curve.backend), len(part)) for curve, part in zip(curves, head, strict=True)]
            lines.append((f"{size_text(size):>15} " + " |".join(parts)).rstrip())
    for curve in curves:
        lines += [f"{curve.backend} has no {op}: {why}" for op, why in curve.missing.items()]
    lines += ["", "algbw and busbw in GB/s, as nccl-tests define them"]
    return lines


def _cells(row: dict[str, Any] | None, width: int) -> str:
    if row is None:
        return " " * width
    share = f" {row['share']:>8.0%}" if row["share"] is not None else ""
    return f"{row['seconds'] * 1e6:>11.1f} {row['algbw_gbps']:>8.2f} {row['busbw_gbps']:>8.2f}{share}"
