"""What was predicted of a run, for its summary to stand beside what was measured."""

from __future__ import annotations

from zerocfg.memory import estimate
from zerocfg.plan import Plan
from zerocfg.planner.cost import cost_of
from zerocfg.planner.rates import rates_of


def predicted(plan: Plan) -> dict[str, float]:
    """Peak memory of a GPU and tokens/s of all ranks, from the data sheet; nothing on cpu or for a model that is not described."""
    if plan.model is None or not plan.hardware.is_cuda:
        return {}
    speed = cost_of(plan, rates_of(plan.hardware)).tokens_per_s_per_gpu(plan.topology.tensor_parallel_degree)
    return {
        "predicted_peak_memory_bytes": estimate(plan).peak_allocated_bytes,
        "predicted_tokens_per_s": round(speed * plan.topology.world_size, 1),
    }
