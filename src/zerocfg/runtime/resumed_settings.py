"""Where the config has changed since a checkpoint was saved: settings of optimizer and schedule are the config's, not the checkpoint's."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from zerocfg.plan import Plan
from zerocfg.runtime.checkpoint_files import Checkpoint
from zerocfg.runtime.checkpoint_shape import changed_settings

log = logging.getLogger("zerocfg")


def schedule_of(engine: Any) -> str:
    """Class of the engine's schedule, for the manifest; empty without one."""
    return type(engine.lr_scheduler).__name__ if engine.lr_scheduler is not None else ""


@contextmanager
def config_holds(engine: Any, checkpoint: Checkpoint, plan: Plan, *, main: bool) -> Iterator[None]:
    """Around the loading of a checkpoint into a fresh engine. main: this rank logs.

    DeepSpeed gives the optimizer all of the checkpoint's settings (rate, decay, betas), and a schedule the state of whatever was there:
    it fails where that was none (engine.py:4701). A schedule of DeepSpeed's that is new begins at the step of the checkpoint.
    """
    configured = [dict(group) for group in _groups(engine)]
    schedule = engine.lr_scheduler
    same = _same_schedule(engine, checkpoint, plan)
    engine.lr_scheduler = schedule if same else None
    try:
        yield
    finally:
        engine.lr_scheduler = schedule
    names = changed_settings(checkpoint.plan, plan)
    if not same or (schedule is None and any(name.endswith("lr") for name in names)):
        names |= {"lr"}  # Muon's groups have other names for it in the JSON
    elif schedule is not None:
        names -= {"lr"}  # the schedule's own business
    for group, own in zip(_groups(engine), configured, strict=False):
        group.update({name: own[name] for name in names if name in own})
    if hasattr(schedule, "last_batch_iteration"):
        place = schedule.last_batch_iteration if same else engine.global_steps - engine.skipped_steps - 1
        if place >= 0:
            schedule.step(place)  # the rate of this place by the config's values: the same where nothing has changed
    elif schedule is not None and not same and main:
        log.warning("%s begins anew: the checkpoint has no state of it", schedule_of(engine))


def _groups(engine: Any) -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = getattr(engine.optimizer, "param_groups", [])
    return groups


def _same_schedule(engine: Any, checkpoint: Checkpoint, plan: Plan) -> bool:
    saved: Mapping[str, Any] = checkpoint.manifest
    if "schedule" in saved:
        return bool(saved["schedule"] == schedule_of(engine))
    return bool(checkpoint.plan["scheduler"]["type"] == plan.scheduler.type)  # of an earlier release
