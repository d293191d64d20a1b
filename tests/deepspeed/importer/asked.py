"""What importing a config gives, in the form that tests compare."""

from __future__ import annotations

from typing import Any

from zerocfg.deepspeed.importer import import_config

MICRO = {"train_micro_batch_size_per_gpu": 1}
ZERO3 = {"stage": 3}


def told(config: dict[str, Any], **options: Any) -> dict[str, tuple[str, str, str]]:
    return {e.path: (e.outcome, e.code, e.reason) for e in import_config({**MICRO, **config}, **options).entries}


def overrides(config: dict[str, Any], **options: Any) -> list[str]:
    """Without those of an empty config."""
    plain = import_config({}, **options).overrides
    return [line for line in import_config(config, **options).overrides if line not in plain]
