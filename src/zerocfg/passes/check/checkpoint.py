from __future__ import annotations

from collections.abc import Iterator

from zerocfg.diagnostics import Diagnostic, Severity
from zerocfg.plan import Plan


def off_but_configured(plan: Plan, asked: frozenset[str]) -> Iterator[Diagnostic]:
    """ZC241: a value of saving while nothing is saved."""
    if plan.checkpoint.enabled:
        return
    usual = {"every_steps": 0, "every_minutes": 0.0, "async_save": False, "consolidate_on_end": False}
    for name, off in usual.items():
        value, path = getattr(plan.checkpoint, name), f"checkpoint.{name}"
        if value != off:
            yield Diagnostic(
                code="ZC241",
                path=path,
                message=f"{path}={str(value).lower()} has no effect: no checkpoints are saved",
                hint="checkpoint=steps, or checkpoint.enabled=true",
            )


def consolidation_needs_whole_weights(plan: Plan, _: frozenset[str]) -> Iterator[Diagnostic]:
    """ZC242: zero_to_fp32 reads one model-parallel rank (utils/zero_to_fp32.py:95)."""
    degree = plan.topology.tensor_parallel_degree
    if plan.checkpoint.consolidate_on_end and degree > 1:
        yield Diagnostic(
            code="ZC242",
            path="checkpoint.consolidate_on_end",
            message=f"checkpoint.consolidate_on_end=true cannot join weights that are cut over {degree} tensor-parallel ranks",
            hint="checkpoint.consolidate_on_end=false",
        )


def stopping_needs_signals(plan: Plan, _: frozenset[str]) -> Iterator[Diagnostic]:
    """ZC243: torchrun ends its workers by SIGKILL, or dies itself, where it does not handle the signal that asks to stop."""
    if plan.checkpoint.enabled and not {"SIGTERM", "SIGUSR2"} <= set(plan.torchrun.signals_to_handle):
        missing = [name for name in ("SIGTERM", "SIGUSR2") if name not in plan.torchrun.signals_to_handle]
        yield Diagnostic(
            code="ZC243",
            severity=Severity.WARNING,
            path="torchrun.signals_to_handle",
            message=f"torchrun.signals_to_handle lacks {' and '.join(missing)}: a run that is stopped by it saves no checkpoint",
            hint="torchrun.signals_to_handle=[SIGTERM,SIGINT,SIGUSR2]",
        )


CHECKS = (off_but_configured, consolidation_needs_whole_weights, stopping_needs_signals)
