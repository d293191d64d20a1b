"""What a training script imports: `run = zerocfg.current_run()`."""

from __future__ import annotations

from zerocfg.runtime.current import current_run
from zerocfg.runtime.run import Run
from zerocfg.runtime.steps import Step

__all__ = ["Run", "Step", "current_run"]
