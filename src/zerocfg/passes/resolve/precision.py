"""dtypes; what is left null follows the model's dtype."""

from __future__ import annotations

from zerocfg.plan import PrecisionPlan
from zerocfg.provenance import Reason, asked, rule
from zerocfg.resolved import Resolved
from zerocfg.schema.precision import PrecisionConfig

_PASS = "resolve.precision"


def resolve_precision(config: PrecisionConfig) -> Resolved[PrecisionPlan]:
    dtype = config.dtype.value
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
    for name in ("grad_accum_dtype", "communication_data_type"):
        given = getattr(config, name)
        followed[name] = dtype if given is None else given.value
        reasons[name] = rule(_PASS, f"the model's dtype, {dtype}", "precision.dtype") if given is None else asked(f"precision.{name}")
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
