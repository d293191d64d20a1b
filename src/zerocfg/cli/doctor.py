"""zerocfg doctor: whether this machine is fit for a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from zerocfg.cli import output
from zerocfg.diagnostics import has_errors
from zerocfg.doctor import Finding, Needs, Status, diagnose, worst
from zerocfg.doctor.machine import LocalMachine, Machine
from zerocfg.hidden import hide_override

if TYPE_CHECKING:
    from zerocfg.cli.outcome import Result

_COLOURS = {Status.OK: "\033[32m", Status.WARN: "\033[33m", Status.FAIL: "\033[1;31m"}


def doctor_command(
    overrides: Sequence[str],
    *,
    as_json: bool = False,
    config_path: str | None = None,
    config_name: str | None = None,
    machine: Machine | None = None,
) -> int:
    """One line a check. Without overrides and config everything is looked at; with them what the run needs. Exit status 1 when a check
    fails, or the config has errors.

    as_json: {status, host, run, problems: [as check --json], checks: [{check, status, code, text, fix}]}.
    """
    machine = machine or LocalMachine()
    result = None
    if overrides or config_path or config_name:
        from zerocfg.cli.outcome import examine_overrides  # Hydra: half of this command's time where nothing is composed

        result = examine_overrides(overrides, config_path, config_name)
    problems = result.diagnostics if result is not None else []
    findings = diagnose(machine, needs_of(result, overrides))
    status = Status.FAIL if has_errors(problems) else worst(findings)
    title = " ".join(map(hide_override, overrides)) or ("the config" if result is not None else "")
    if as_json:
        output.product_json(
            {
                "status": status.label,
                "host": machine.hostname(),
                "run": title,
                "problems": [d.as_dict() for d in problems],
                "checks": [finding.as_dict() for finding in findings],
            }
        )
    else:
        output.report(problems)
        output.product("\n".join(lines(machine.hostname(), title, findings, coloured=output.colours())))
    return 1 if status is Status.FAIL else 0


def needs_of(result: Result | None, overrides: Sequence[str]) -> Needs:
    """A config with errors needs nothing in particular."""
    folder, slurm = "outputs", False
    for word in overrides:
        key, _, value = word.partition("=")
        if key == "hydra.sweep.dir" and "$" not in value:
            folder = value.strip("'\"")
        slurm = slurm or (key == "hydra/launcher" and value == "zerocfg_slurm")
    if result is None or result.run is None:
        return Needs(output=folder, slurm=slurm)
    return Needs(plan=result.run.plan, environment=result.run.environment, output=folder, slurm=slurm)


def lines(host: str, title: str, findings: Sequence[Finding], *, coloured: bool = False) -> list[str]:
    width = max((len(finding.check) for finding in findings), default=0)
    made = [f"{host}, for {title}" if title else host]
    for finding in findings:
        word = f"{finding.status.label:<4}"
        shown = f"{_COLOURS[finding.status]}{word}\033[0m" if coloured else word
        code = f" [{finding.code}]" if finding.code else ""
        made.append(f"{shown}  {finding.check:<{width}}  {finding.text}{code}")
        if finding.fix:
            made.append(f"{'':<4}  {'':<{width}}  try: {finding.fix}")
    counts = {status: sum(finding.status is status for finding in findings) for status in Status}
    made.append("")
    made.append(
        f"{counts[Status.OK]} ok, {counts[Status.WARN]} warning{'' if counts[Status.WARN] == 1 else 's'}, {counts[Status.FAIL]} failed"
        + ("" if counts[Status.FAIL] == 0 else f": not fit for {title or 'a run'}")
    )
    return made
