"""Optimizer parameters as DeepSpeed's classes accept them: an unknown one is a TypeError only once the GPUs are taken."""

from __future__ import annotations

import difflib

from zerocfg.diagnostics import Diagnostic
from zerocfg.facts import HardwareFacts
from zerocfg.plan import OptimizerPlan
from zerocfg.provenance import Reason, asked, rule
from zerocfg.resolved import Resolved
from zerocfg.schema.load import field_names
from zerocfg.schema.optimizer import OptimizerConfig

_PASS = "resolve.optimizer"

# What each of DeepSpeed's optimizers takes (runtime/engine.py:2413-2560), by lower-cased name, out of this group's fields.
_ADAM = ("lr", "betas", "eps", "weight_decay", "bias_correction")
ACCEPTED: dict[str, tuple[str, ...]] = {
    "adamw": _ADAM,
    "adam": (*_ADAM, "adam_w_mode"),
    "lion": ("lr", "betas", "weight_decay"),
    "adagrad": ("lr", "eps", "weight_decay"),
    "lamb": (*_ADAM, "max_coeff", "min_coeff"),
    "muon": ("lr", "muon_lr", "adam_lr", "momentum", "betas", "eps", "weight_decay"),
}
_SPELLING = {"adamw": "AdamW", "adam": "Adam", "lion": "Lion", "adagrad": "Adagrad", "lamb": "Lamb", "muon": "Muon"}
_NOT_PARAMS = ("name", "type", "gradient_clipping")


def resolve_optimizer(config: OptimizerConfig, hardware: HardwareFacts) -> Resolved[OptimizerPlan]:
    """Codes: ZC140 unknown optimizer, ZC141 a parameter that it does not take, ZC142 a parameter out of range."""
    if config.type is None:
        reasons = {"type": asked("optimizer.type"), "gradient_clipping": asked("optimizer.gradient_clipping")}
        return Resolved(OptimizerPlan(type="", params={}, gradient_clipping=config.gradient_clipping), reasons, _ranges(config))
    problems: list[Diagnostic] = []
    kind = config.type.lower()
    accepted = ACCEPTED.get(kind)
    if accepted is None:
        near = difflib.get_close_matches(kind, ACCEPTED, n=1)
        problems.append(
            Diagnostic(
                code="ZC140",
                path="optimizer.type",
                message=f"optimizer.type={config.type} is not an optimizer that DeepSpeed builds",
                detail=(f"it builds {', '.join(_SPELLING.values())}",),
                hint=f"optimizer={near[0]}" if near else "optimizer=adamw",
            )
        )
        kind, accepted = "adamw", ACCEPTED["adamw"]
    params: dict[str, object] = {}
    reasons = {"type": asked("optimizer.type"), "gradient_clipping": asked("optimizer.gradient_clipping")}
    for name in field_names(OptimizerConfig):
        value = getattr(config, name)
        if name in _NOT_PARAMS or value is None:
            continue
        if name in accepted:
            params[name] = list(value) if isinstance(value, list) else value
            reasons[f"params.{name}"] = asked(f"optimizer.{name}")
        else:
            problems.append(
                Diagnostic(
                    code="ZC141",
                    path=f"optimizer.{name}",
                    message=f"optimizer.{name}={value} has no meaning for {_SPELLING[kind]}",
                    detail=(f"{_SPELLING[kind]} takes {', '.join(accepted)}",),
                    hint=f"~optimizer.{name}, or optimizer.{name}=null",
                )
            )
    problems += _ranges(config)
    if kind in ("adam", "adamw") and not hardware.is_cuda:
        params.pop("bias_correction", None)
        params["torch_adam"] = True
        reasons["params.torch_adam"] = rule(
            _PASS, "on cpu DeepSpeed's FusedAdam would compile for minutes first; torch.optim's does the same", "hardware.accelerator"
        )
    plan = OptimizerPlan(type=_SPELLING[kind], params=params, gradient_clipping=config.gradient_clipping)
    return Resolved(plan, reasons, problems)


def _ranges(config: OptimizerConfig) -> list[Diagnostic]:
    def bad(name: str, value: object, wanted: str, hint: str) -> Diagnostic:
        return Diagnostic(
            code="ZC142", path=f"optimizer.{name}", message=f"optimizer.{name}={value} is not {wanted}", hint=f"optimizer.{name}={hint}"
        )

    problems = []
    for name in ("lr", "muon_lr", "adam_lr"):
        rate = getattr(config, name)
        if rate is not None and rate <= 0:
            problems.append(bad(name, rate, "above 0", "1e-4"))
    for name, fallback in (("weight_decay", "0"), ("gradient_clipping", "1.0"), ("eps", "1e-8")):
        value = getattr(config, name)
        if value is not None and value < 0:
            problems.append(bad(name, value, "0 or more", fallback))
    if config.betas is not None and (len(config.betas) != 2 or not all(0 <= b < 1 for b in config.betas)):
        problems.append(bad("betas", config.betas, "two numbers in [0, 1)", "[0.9,0.95]"))
    if config.momentum is not None and not 0 <= config.momentum < 1:
        problems.append(bad("momentum", config.momentum, "in [0, 1)", "0.95"))
    return problems
