"""What DeepSpeed's estimators and accelerate's rule say of the same plan, to stand beside ours. Both count model states alone."""

from __future__ import annotations

from dataclasses import dataclass

from zerocfg.memory.estimate import rank_of
from zerocfg.plan import Plan
from zerocfg.traced import total


@dataclass(frozen=True, slots=True)
class Rule:
    name: str
    bytes: int
    """On one GPU."""
    counts: str
    """What is in it."""


def others(plan: Plan) -> list[Rule]:
    """Raises ModelNotDescribed."""
    rank = rank_of(plan)
    count, largest = total(rank.parameters.entries), rank.parameters.largest_module
    rules = [accelerate(count, plan.precision.dtype)]
    gpus = plan.topology.world_size
    optimizer, param = plan.offload.optimizer != "none", plan.offload.param != "none"
    if plan.zero.stage == 3:
        return [deepspeed_zero3(count, largest, gpus, optimizer=optimizer, param=param), *rules]
    return [deepspeed_zero2(count, gpus, optimizer=optimizer), *rules] if plan.zero.stage else rules


def deepspeed_zero3(count: int, largest: int, gpus: int, *, optimizer: bool, param: bool) -> Rule:
    """runtime/zero/stage3.py:4016: 18 bytes a parameter, and the largest layer in fp32."""
    layer = 4 * largest
    size = (layer if param else layer + int(2 * count / gpus)) if optimizer else layer + int(18 * count / gpus)
    return Rule("DeepSpeed, estimate_zero3_model_states_mem_needs", size, "18 bytes a parameter over the GPUs, the largest layer")


def deepspeed_zero2(count: int, gpus: int, *, optimizer: bool) -> Rule:
    """runtime/zero/stage_1_and_2.py:4017: weights whole, the rest over the GPUs."""
    size = 2 * count if optimizer else 2 * count + int(18 * count / gpus)
    return Rule("DeepSpeed, estimate_zero2_model_states_mem_needs", size, "2 bytes a parameter, and 18 over the GPUs")


def accelerate(count: int, dtype: str) -> Rule:
    """accelerate estimate-memory: four times the model in its dtype, for training with Adam on one GPU."""
    return Rule("accelerate estimate-memory", 4 * count * (4 if dtype == "fp32" else 2), "four times the weights, one GPU")
