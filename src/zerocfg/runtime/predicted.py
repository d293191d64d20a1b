"""What is known of a run before it starts, for its records to stand beside: predictions, FLOPs of a step, the GPU's peak rate."""

from __future__ import annotations

from zerocfg.memory import estimate
from zerocfg.memory.estimate import ModelNotDescribed, rank_of
from zerocfg.plan import Plan
from zerocfg.planner.cost import cost_of
from zerocfg.planner.rates import rates_of
from zerocfg.planner.work import work_of
from zerocfg.probe.calibration import stored_calibration


def predicted(plan: Plan) -> dict[str, float]:
    """Peak memory of a GPU and tokens/s of all ranks, from the calibration or the data sheet.

    Nothing on cpu, or for a model that is not described.
    """
    if not plan.is_described or not plan.hardware.is_cuda:
        return {}
    speed = cost_of(plan, rates_of(plan.hardware, stored_calibration(plan.hardware).found)).tokens_per_s_per_gpu(
        plan.topology.tensor_parallel_degree
    )
    return {
        "predicted_peak_memory_bytes": estimate(plan).peak_allocated_bytes,
        "predicted_tokens_per_s": round(speed * plan.topology.world_size, 1),
    }


def step_flops(plan: Plan) -> float:
    """Model FLOPs of one rank in one optimizer step: 6 N + 12 L h s a token, recomputation not counted. 0: the model is not described."""
    try:
        return work_of(rank_of(plan)).model_flops * plan.batch.gradient_accumulation_steps
    except ModelNotDescribed:
        return 0.0


def peak_flops(plan: Plan) -> float:
    """FLOP/s of one GPU in the plan's dtype: the dense rate of its data sheet, with tf32 that of TF32. 0: not known."""
    hardware, precision = plan.hardware, plan.precision
    fp32 = hardware.tf32_tflops if precision.tf32 else hardware.fp32_tflops
    return 1e12 * {"bf16": hardware.bf16_tflops, "fp16": hardware.fp16_tflops, "fp32": fp32}[precision.dtype]
