"""Learning-rate schedule. Counts are optimizer steps; DeepSpeed steps its scheduler once an optimizer step."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator

from zerocfg.diagnostics import Diagnostic, Severity
from zerocfg.plan import SchedulerPlan
from zerocfg.provenance import Reason, asked, rule
from zerocfg.resolved import Resolved
from zerocfg.schema.load import field_names
from zerocfg.schema.optimizer import SchedulerConfig

_PASS = "resolve.scheduler"
_WARMUP = ("warmup_num_steps", "warmup_type", "total_num_steps")
# What each of DeepSpeed's schedules takes out of this group's fields (runtime/lr_schedules.py); total_num_steps also where only
# lengths left null are derived from it.
ACCEPTED: dict[str, tuple[str, ...]] = {
    "WarmupLR": (*_WARMUP, "warmup_min_lr", "warmup_max_lr"),
    "WarmupDecayLR": (*_WARMUP, "warmup_min_lr", "warmup_max_lr"),
    "WarmupCosineLR": (*_WARMUP, "warmup_min_ratio", "cos_min_ratio"),
    "OneCycle": (
        "total_num_steps",
        "cycle_min_lr",
        "cycle_max_lr",
        "cycle_first_step_size",
        "cycle_second_step_size",
        "decay_lr_rate",
    ),
}
TYPES = tuple(ACCEPTED)
_LONGEST_DEFAULT_WARMUP = 2000


def resolve_scheduler(config: SchedulerConfig, lr: float, train_steps: int) -> Resolved[SchedulerPlan]:
    """Codes: ZC150 unknown scheduler, ZC151 a length that does not work, ZC152 an unknown warmup_type, ZC153 a value out of range,
    ZC154 a value that this schedule does not take."""
    if config.type is None:
        return Resolved(SchedulerPlan(type="", params={}), {"type": asked("scheduler.type")}, [*_not_taken(config, "a constant rate", ())])
    problems: list[Diagnostic] = []
    if config.type not in TYPES:
        near = difflib.get_close_matches(config.type, TYPES, n=1, cutoff=0.4)
        problems.append(
            Diagnostic(
                code="ZC150",
                path="scheduler.type",
                message=f"scheduler.type={config.type} is not one of DeepSpeed's schedulers here",
                hint=f"scheduler.type={near[0] if near else TYPES[0]}",
            )
        )
        return Resolved(SchedulerPlan(type="", params={}), {}, problems)
    problems += _not_taken(config, config.type, ACCEPTED[config.type])
    if config.total_num_steps is not None and int(config.total_num_steps) < 1:
        problems.append(_too_short("total_num_steps", int(config.total_num_steps), 1, train_steps))
    pick = _Picker(config, lr, train_steps)
    problems += pick.one_cycle() if config.type == "OneCycle" else pick.warmup()
    problems += _ranges(pick.params)
    return Resolved(SchedulerPlan(type=config.type, params=pick.params), {"type": asked("scheduler.type"), **pick.reasons}, problems)


def _not_taken(config: SchedulerConfig, kind: str, accepted: tuple[str, ...]) -> Iterator[Diagnostic]:
    untouched = SchedulerConfig()
    for name in field_names(SchedulerConfig):
        value = getattr(config, name)
        if name not in ("name", "type", *accepted) and value != getattr(untouched, name):
            yield Diagnostic(
                code="ZC154",
                path=f"scheduler.{name}",
                message=f"scheduler.{name}={value} has no meaning for {kind}",
                detail=(f"{kind} takes {', '.join(accepted)}",) if accepted else (),
                hint=f"~scheduler.{name}, or a scheduler that has it: {', '.join(t for t in TYPES if name in ACCEPTED[t])}",
            )


def _ranges(params: dict[str, object]) -> Iterator[Diagnostic]:
    for name, value in params.items():
        most = 1.0 if name.endswith("_ratio") else math.inf
        if name.endswith(("_lr", "_ratio", "_rate")) and isinstance(value, (int, float)) and not 0 <= value <= most:
            wanted = "between 0 and 1" if name.endswith("_ratio") else "0 or more"
            yield Diagnostic(
                code="ZC153", path=f"scheduler.{name}", message=f"scheduler.{name}={value} is not {wanted}", hint=f"scheduler.{name}=0"
            )
    for low, high in (("warmup_min_lr", "warmup_max_lr"), ("cycle_min_lr", "cycle_max_lr")):
        if low in params and params[low] > params[high]:  # type: ignore[operator]
            yield Diagnostic(
                code="ZC153",
                path=f"scheduler.{low}",
                message=f"scheduler.{low}={params[low]} is above {high}={params[high]}: the rate would fall where it should rise",
                hint=f"scheduler.{low}={params[high]} or less",
            )


def _too_short(name: str, value: object, least: int, hint: int) -> Diagnostic:
    path = f"scheduler.{name}"
    return Diagnostic(code="ZC151", path=path, message=f"{path}={value} must be at least {least}", hint=f"{path}={max(least, hint)}")


class _Picker:
    def __init__(self, config: SchedulerConfig, lr: float, train_steps: int) -> None:
        self.config, self.lr, self.train_steps = config, lr, train_steps
        self.params: dict[str, object] = {}
        self.reasons: dict[str, Reason] = {}
        self.total = int(config.total_num_steps) if config.total_num_steps is not None else train_steps
        self.total_reason = (
            asked("scheduler.total_num_steps") if config.total_num_steps is not None else rule(_PASS, "train.steps", "train.steps")
        )

    def _put(self, name: str, value: object, reason: Reason) -> None:
        self.params[name], self.reasons[f"params.{name}"] = value, reason

    def _take(self, *names: str) -> None:
        for name in names:
            self._put(name, getattr(self.config, name), asked(f"scheduler.{name}"))

    def _rate(self, name: str, default: float, why: str) -> None:
        given = getattr(self.config, name)
        self._put(
            name, default if given is None else given, rule(_PASS, why, "optimizer.lr") if given is None else asked(f"scheduler.{name}")
        )

    def warmup(self) -> list[Diagnostic]:
        config, problems = self.config, []
        cosine, decays = config.type == "WarmupCosineLR", config.type != "WarmupLR"
        if decays:
            self._put("total_num_steps", self.total, self.total_reason)
        if cosine:
            self._take("warmup_min_ratio", "cos_min_ratio")
        else:
            self._take("warmup_min_lr")
            self._rate("warmup_max_lr", self.lr, "optimizer.lr; DeepSpeed's own default ignores it")
        if config.warmup_type not in ("log", "linear"):
            problems.append(
                Diagnostic(
                    code="ZC152",
                    path="scheduler.warmup_type",
                    message=f"scheduler.warmup_type={config.warmup_type} is not log or linear: DeepSpeed would use log in silence",
                    hint="scheduler.warmup_type=linear",
                )
            )
        self._take("warmup_type")
        if config.warmup_num_steps is None:
            steps = max(2, min(_LONGEST_DEFAULT_WARMUP, self.total // 100))
            self._put("warmup_num_steps", steps, rule(_PASS, f"1 % of {self.total} steps, at least 2, at most {_LONGEST_DEFAULT_WARMUP}"))
        else:
            self._take("warmup_num_steps")
        return problems + self._lengths(int(self.params["warmup_num_steps"]), decays)  # type: ignore[call-overload]

    def _lengths(self, warmup: int, decays: bool) -> list[Diagnostic]:
        path = "scheduler.warmup_num_steps"
        if warmup < 2:
            return [
                Diagnostic(
                    code="ZC151",
                    path=path,
                    message=f"{path}={warmup}: DeepSpeed raises it to 2 in silence (or refuses 0)",
                    hint=f"{path}=2, or scheduler=none",
                )
            ]
        if decays and warmup >= self.total:
            shorter = f"{path}={max(2, self.total // 10)}, or " if self.total > 2 else ""
            return [
                Diagnostic(
                    code="ZC151",
                    path=path,
                    message=f"{path}={warmup} is not below total_num_steps={self.total}: the rate would never come down",
                    detail=("total_num_steps counts optimizer steps; null means train.steps",),
                    hint=f"{shorter}scheduler.total_num_steps={warmup * 10}",
                )
            ]
        if self.config.type == "WarmupDecayLR" and self.total < self.train_steps:
            return [
                Diagnostic(
                    code="ZC151",
                    severity=Severity.WARNING,
                    path="scheduler.total_num_steps",
                    message=f"scheduler.total_num_steps={self.total} is below train.steps={self.train_steps}: the rate is 0 from there on",
                    hint=f"scheduler.total_num_steps={self.train_steps}",
                )
            ]
        return []

    def one_cycle(self) -> list[Diagnostic]:
        self._rate("cycle_min_lr", self.lr / 10, "a tenth of optimizer.lr")
        self._rate("cycle_max_lr", self.lr, "optimizer.lr")
        first = self.config.cycle_first_step_size
        if first is None:
            self._put("cycle_first_step_size", max(1, self.total // 2), rule(_PASS, f"half of {self.total} steps"))
        else:
            self._take("cycle_first_step_size")
        if self.config.cycle_second_step_size is not None:
            self._take("cycle_second_step_size")
        self._take("decay_lr_rate")
        if self.config.decay_lr_rate:
            self._put(
                "decay_step_size", 1, rule(_PASS, "decay_lr_rate is a step; with DeepSpeed's 0 it has no effect", "scheduler.decay_lr_rate")
            )
        # OneCycle cycles momentum by default, which would overwrite the optimizer's betas
        self._put("cycle_momentum", False, rule(_PASS, "rate only: the optimizer's moments stay as asked"))
        return [
            _too_short(name, self.params[name], least, self.total // 2)
            for name, least in (("cycle_first_step_size", 1), ("cycle_second_step_size", 0))
            if name in self.params and self.params[name] < least  # type: ignore[operator]
        ]
