"""dtypes; what is left null follows the model's dtype."""

from __future__ import annotations

from zerocfg.plan import PrecisionPlan
from zerocfg.provenance import Reason, asked, rule
from zerocfg.resolved import Resolved
from zerocfg.schema.precision import PrecisionConfig

_PASS = "resolve.precision"


def resolve_precision(config: PrecisionConfig, sequence_parallel_degree: int) -> Resolved[PrecisionPlan]:
    """Gradients are accumulated and reduced in the model's dtype unless asked otherwise; with sequence parallelism reduced in fp32."""
    dtype = config.dtype.value
    follows_model = (dtype, rule(_PASS, f"the model's dtype, {dtype}", "precision.dtype"))
    defaults = {"grad_accum_dtype": follows_model, "communication_data_type": follows_model}
    if sequence_parallel_degree > 1:
        # each rank holds a part of every sample's gradient; DeepSpeed's default for that sum (constants.py:236)
        why = rule(_PASS, "sequence-parallel ranks sum parts of one gradient", "parallelism.sequence_parallel_degree")
        defaults["communication_data_type"] = ("fp32", why)
    reasons: dict[str, Reason] = {
        name: asked(f"precision.{name}")
        for name in (
            "dtype",
            "tf32",
            "master_dtype",
            "loss_scale",
            "initial_scale_power",
            "loss_scale_window",
            "hysteresis",
            "min_loss_scale",
        )
    }
    followed = {}
    for name, (default, why) in defaults.items():
        given = getattr(config, name)
        followed[name], reasons[name] = (default, why) if given is None else (given.value, asked(f"precision.{name}"))
    plan = PrecisionPlan(
        dtype=dtype,
        tf32=config.tf32,
        master_dtype=config.master_dtype.value,
        loss_scale=config.loss_scale,
        initial_scale_power=int(config.initial_scale_power),
        loss_scale_window=int(config.loss_scale_window),
        hysteresis=int(config.hysteresis),
        min_loss_scale=int(config.min_loss_scale),
        **followed,
    )
    return Resolved(plan, reasons)
