"""Which plan is fastest: rates of a machine, cost of a plan, search over plans. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zerocfg.compiler import Decision
    from zerocfg.facts import Detected
    from zerocfg.planner.fill_in import ReadCalibration
    from zerocfg.schema import RunConfig

CODES: dict[str, str] = {
    "ZC511": "Chosen by the rule of size, without a prediction.",
    "ZC512": "A slow link between the GPUs or the nodes.",
}


def decide(config: RunConfig, detected: Detected | None, torch: str = "", *, stored: ReadCalibration | None = None) -> Decision:
    """Fill in what `config` leaves open. Loaded only when something is: most runs have nothing to plan.

    stored: reads what was calibrated of a machine; None: the data sheet (zerocfg.probe.calibration has both together).
    """
    from zerocfg.planner.fill_in import fill_in

    return fill_in(config, detected, torch, stored=stored)
