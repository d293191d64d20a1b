"""Checks of one DeepSpeed JSON: everything that the file alone, and the number of ranks, can show to be wrong.

Error: DeepSpeed raises, or ignores in silence what was asked. Warning: redundant or risky. Note: worth knowing.
Each rule is a function in a module check_*.py; a new one needs its function there and its line in
docs/reference/diagnostics.md, which is made from CODES.
"""

from __future__ import annotations

from collections.abc import Mapping

from zerocfg.deepspeed import (
    check_batch,
    check_effect,
    check_gradients,
    check_names,
    check_offload,
    check_optimizer,
    check_parallel,
    check_precision,
    check_scheduler,
    check_services,
    check_values,
    check_zero,
)
from zerocfg.deepspeed.rules import RULES
from zerocfg.deepspeed.view import View
from zerocfg.diagnostics import Diagnostic, in_order

MODULES = (
    check_names,
    check_values,
    check_effect,
    check_offload,
    check_batch,
    check_optimizer,
    check_scheduler,
    check_precision,
    check_gradients,
    check_zero,
    check_parallel,
    check_services,
)
"""Importing them registers their rules."""

CODES: dict[str, str] = {rule.code: rule.summary for rule in sorted(RULES, key=lambda rule: rule.code)}
"""Code -> one line."""


def check_deepspeed(
    config: Mapping[str, object],
    *,
    world_size: int | None,
    data_parallel_size: int | None = None,
    accelerator: str = "cuda",
    compute_capability: tuple[int, int] | None = None,
    trainable_params: int | None = None,
    prefix: str = "deepspeed",
) -> list[Diagnostic]:
    """All problems of `config`, errors first.

    world_size: ranks of the run; None leaves out what depends on it.
    data_parallel_size: ranks the batch is divided over, where the JSON cannot say it (a PipelineModule, an mpu).
    accelerator: DeepSpeed's name of the device, "cuda" or "cpu".
    compute_capability: (major, minor) of the GPU.
    trainable_params: elements that get a gradient, over the whole model.
    prefix: where the config lies; the paths of the diagnostics start with it and a dot.
    """
    view = View(
        config=config,
        world_size=world_size,
        data_parallel_size=data_parallel_size,
        accelerator=accelerator,
        compute_capability=compute_capability,
        trainable_params=trainable_params,
        prefix=prefix,
    )
    return in_order(diagnostic for rule in RULES for diagnostic in rule.run(view))
