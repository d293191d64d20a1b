"""What is saved, how often, and what a run starts from."""

from __future__ import annotations

from collections.abc import Iterator

from zerocfg.diagnostics import Diagnostic
from zerocfg.plan import CheckpointPlan
from zerocfg.provenance import Reason, asked, rule
from zerocfg.resolved import Resolved
from zerocfg.schema.checkpoint import CheckpointConfig
from zerocfg.schema.load import field_names

_PASS = "resolve.checkpoint"


def resolve_checkpoint(config: CheckpointConfig) -> Resolved[CheckpointPlan]:
    """Codes: ZC240 a value out of range."""
    reasons: dict[str, Reason] = {name: asked(f"checkpoint.{name}") for name in field_names(CheckpointConfig)}
    enabled = config.enabled
    if enabled is None:
        given = [name for name in ("every_steps", "every_minutes") if getattr(config, name) is not None]
        enabled = bool(given)
        reasons["enabled"] = rule(_PASS, f"{given[0]} is given" if given else "neither every_steps nor every_minutes is given")
    plan = CheckpointPlan(
        enabled=enabled,
        every_steps=int(config.every_steps or 0),
        every_minutes=config.every_minutes or 0.0,
        keep_last=int(config.keep_last),
        async_save=config.async_save,
        directory=config.directory,
        resume=config.resume,
        on_error=str(config.on_error.value),
        consolidate_on_end=config.consolidate_on_end,
        max_requeues=int(config.max_requeues),
    )
    return Resolved(plan, reasons, [*_problems(config)])


def _problems(config: CheckpointConfig) -> Iterator[Diagnostic]:
    for name, least in (("every_steps", 1), ("keep_last", 0), ("max_requeues", 0)):
        value, path = getattr(config, name), f"checkpoint.{name}"
        if value is not None and int(value) < least:
            yield Diagnostic(code="ZC240", path=path, message=f"{path}={int(value)} must be at least {least}", hint=f"{path}={least or 2}")
    path, minutes = "checkpoint.every_minutes", config.every_minutes
    if minutes is not None and minutes <= 0:
        yield Diagnostic(code="ZC240", path=path, message=f"{path}={minutes} must be above 0", hint=f"{path}=30")
    for name, hint in (("directory", "checkpoints"), ("resume", "auto")):
        path = f"checkpoint.{name}"
        if not getattr(config, name).strip():
            yield Diagnostic(code="ZC240", path=path, message=f"{path} is empty", hint=f"{path}={hint}")
