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
    reasons: dict[str, Reason] = {"type": asked("optimizer.type"), "gradient_clipping": asked("optimizer.gradient_clipping")}
    if config.type is None:
        problems = [_not_taken(name, config, "the training script's own optimizer", ()) for name in _given(config) if name != "lr"]
        problems += _ranges(config)
        return Resolved(OptimizerPlan(type="", params={}, gradient_clipping=config.gradient_clipping), reasons, problems)
    problems = []
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
        kind, accepted = "adamw", tuple(_given(config))
    params: dict[str, object] = {}
    for name in _given(config):
        value = getattr(config, name)
        if name in accepted:
            params[name] = list(value) if isinstance(value, list) else value
            reasons[f"params.{name}"] = asked(f"optimizer.{name}")
        else:
            problems.append(_not_taken(name, config, _SPELLING[kind], accepted))
    problems += _ranges(config)
    # torch.optim's Adam always corrects the bias: without correction DeepSpeed's own has to do it
    if kind in ("adam", "adamw", "muon") and not hardware.is_cuda and config.bias_correction is not False:
        params.pop("bias_correction", None)
        params["torch_adam"] = True
        reasons["params.torch_adam"] = rule(
            _PASS, "on cpu DeepSpeed's FusedAdam would compile for minutes first; torch.optim's does the same", "hardware.accelerator"
        )
    plan = OptimizerPlan(type=_SPELLING[kind], params=params, gradient_clipping=config.gradient_clipping)
    return Resolved(plan, reasons, problems)


def _given(config: OptimizerConfig) -> list[str]:
    return [name for name in field_names(OptimizerConfig) if name not in _NOT_PARAMS and getattr(config, name) is not None]


def _not_taken(name: str, config: OptimizerConfig, by: str, accepted: tuple[str, ...]) -> Diagnostic:
    return Diagnostic(
        code="ZC141",
        path=f"optimizer.{name}",
        message=f"optimizer.{name}={getattr(config, name)} has no meaning for {by}",
        detail=(f"{by} takes {', '.join(accepted)}",) if accepted else (),
        hint=f"optimizer.{name}=null",
    )


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
    low, high = config.min_coeff, config.max_coeff
    if low is not None and low < 0:
        problems.append(bad("min_coeff", low, "0 or more", "0.01"))
    if high is not None and high < max(low or 0, 0):
        problems.append(bad("max_coeff", high, "at least min_coeff", "10.0"))
    return problems
