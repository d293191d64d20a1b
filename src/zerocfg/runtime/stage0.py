"""Stage 0 in 16 bits: DeepSpeed's wrapper takes one optimizer step on zero gradients when it is made.

FP16_Optimizer and FP16_UnfusedOptimizer do it to allocate states (fp16/fused_optimizer.py:125, unfused_optimizer.py:
initialize_optimizer_states). Adam then counts it, and the first real update is 0.74 of what stages 1-3 do
(0.1 / 0.19 over sqrt(0.001 / 0.002) at betas 0.9, 0.999; measured 0.745). The count is set back, so that a run's first steps do not
depend on its stage.
"""

from __future__ import annotations

from typing import Any

_WRAPPERS = ("FP16_Optimizer", "FP16_UnfusedOptimizer")


def forget_empty_step(optimizer: Any) -> bool:
    """Set Adam's step count of a fresh engine's optimizer back to 0. Returns whether there was anything to set back."""
    if type(optimizer).__name__ not in _WRAPPERS:
        return False
    inner = optimizer.optimizer
    found = False
    for group in inner.param_groups:  # FusedAdam counts by group
        if group.get("step"):
            group["step"], found = 0, True
    for state in inner.state.values():  # torch's count by parameter
        step = state.get("step")
        if step is None or not bool(step):
            continue
        found = True
        if hasattr(step, "zero_"):
            step.zero_()
        else:
            state["step"] = 0
    return found
