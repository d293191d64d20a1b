"""Learning-rate schedule. Counts are optimizer steps; DeepSpeed steps its scheduler once an optimizer step."""

from __future__ import annotations

import difflib

from zerocfg.diagnostics import Diagnostic
from zerocfg.plan import SchedulerPlan
from zerocfg.provenance import Reason, asked, rule
from zerocfg.resolved import Resolved
from zerocfg.schema.optimizer import SchedulerConfig

_PASS = "resolve.scheduler"
TYPES = ("WarmupLR", "WarmupDecayLR", "WarmupCosineLR", "OneCycle")
_LONGEST_DEFAULT_WARMUP = 2000


def resolve_scheduler(config: SchedulerConfig, lr: float, train_steps: int) -> Resolved[SchedulerPlan]:
    """Codes: ZC150 unknown scheduler, ZC151 a length that does not work, ZC152 an unknown warmup_type."""
    if config.type is None:
        return Resolved(SchedulerPlan(type="", params={}), {"type": asked("scheduler.type")})
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
    pick = _Picker(config, lr, train_steps)
    if config.type == "OneCycle":
        pick.one_cycle()
    else:
        problems += pick.warmup()
    return Resolved(SchedulerPlan(type=config.type, params=pick.params), {"type": asked("scheduler.type"), **pick.reasons}, problems)


class _Picker:
    def __init__(self, config: SchedulerConfig, lr: float, train_steps: int) -> None:
        self.config, self.lr = config, lr
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
            return [
                Diagnostic(
                    code="ZC151",
                    path=path,
                    message=f"{path}={warmup} is not below total_num_steps={self.total}: the rate would never come down",
                    detail=("total_num_steps counts optimizer steps; null means train.steps",),
                    hint=f"{path}={max(2, self.total // 10)}, or scheduler.total_num_steps={warmup * 10}",
                )
            ]
        return []

    def one_cycle(self) -> None:
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
        # OneCycle cycles momentum by default, which only SGD-like optimizers have under that name
        self._put("cycle_momentum", False, rule(_PASS, "rate only: the optimizer's moments stay as asked"))
