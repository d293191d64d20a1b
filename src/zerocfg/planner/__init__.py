"""Which plan is fastest: rates of a machine, cost of a plan, search over plans. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from zerocfg.compiler import Decision
    from zerocfg.facts import Detected
    from zerocfg.schema import RunConfig

CODES: dict[str, str] = {
    "ZC511": "Chosen by the rule of size, without a prediction.",
    "ZC512": "A slow link between the GPUs or the nodes.",
}


def decide(config: RunConfig, detected: Detected | None, torch: str = "", *, calibration: Mapping[str, Any] | None = None) -> Decision:
    """Fill in what `config` leaves open. Loaded only when something is: most runs have nothing to plan."""
    from zerocfg.planner.decide import fill_in

    return fill_in(config, detected, torch, calibration=calibration)
