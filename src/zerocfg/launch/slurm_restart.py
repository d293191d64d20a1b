"""What a run that saves checkpoints asks SLURM for where the options leave it open: a signal before its limit, another start."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

from zerocfg.artifact import CompiledRun
from zerocfg.diagnostics import Diagnostic
from zerocfg.launch.slurm_options import SlurmOptions
from zerocfg.passes.lower.slurm import PATH


def with_restarts(options: SlurmOptions, run: CompiledRun | None) -> SlurmOptions:
    """`signal` and `requeue` decided. run: None for an app without zerocfg's groups."""
    saves = run is not None and run.plan.checkpoint.enabled
    again = run is not None and saves and run.plan.checkpoint.max_requeues > 0
    changed = dataclasses.replace(options, requeue=again if options.requeue is None else options.requeue)
    if options.signal is None and saves:
        changed.signal = "USR2"
        if _has_limit(options):
            # half of a short limit is for training
            changed.signal_delay_s = min(options.signal_delay_s, int(60 * (options.timeout_min or 0) / 2))
    return changed


def check_signal(options: SlurmOptions) -> Iterator[Diagnostic]:
    """ZC734: the signal would come as soon as the job starts."""
    if options.signal is None or not _has_limit(options):
        return
    seconds = 60 * math.ceil(options.timeout_min or 0)
    if options.signal_delay_s >= seconds:
        yield Diagnostic(
            code="ZC734",
            path=f"{PATH}.signal_delay_s",
            message=f"{PATH}.signal_delay_s={options.signal_delay_s} is no less than the time limit: {options.signal} comes at the start",
            detail=(f"{PATH}.timeout_min={options.timeout_min:g} is {seconds} s",),
            hint=f"{PATH}.signal_delay_s={seconds // 2}, or a longer {PATH}.timeout_min",
        )


def _has_limit(options: SlurmOptions) -> bool:
    return options.timeout_min is not None and 0 < options.timeout_min < math.inf
