"""global = micro x accumulation x data-parallel ranks: solve for what is not given.

Same order as DeepSpeed's own inference (runtime/config.py:607-656), but in whole numbers or not at all.
"""

from __future__ import annotations

import math

from zerocfg.diagnostics import Diagnostic
from zerocfg.plan import BatchPlan, TopologyPlan
from zerocfg.provenance import Reason, asked, rule
from zerocfg.resolved import Resolved
from zerocfg.schema.batch import BatchConfig
from zerocfg.units import counted

_PASS = "resolve.batch"
_FIELDS = ("global_batch_size", "micro_batch_size", "gradient_accumulation_steps")


def resolve_batch(config: BatchConfig, topology: TopologyPlan) -> Resolved[BatchPlan]:
    """Codes: ZC201 no whole solution, ZC202 a size below 1."""
    dp = topology.data_parallel_size
    # auto is the planner's, which has had its say by now
    given = {name: int(v) for name in _FIELDS if (v := getattr(config, name)) is not None and v != "auto"}
    below = [name for name, value in given.items() if value < 1]
    reasons: dict[str, Reason] = {name: asked(f"batch.{name}") for name in given}
    tp, sp = topology.tensor_parallel_degree, topology.sequence_parallel_degree
    reasons["data_parallel_size"] = rule(_PASS, f"world / (tensor x sequence parallel) = {topology.world_size} / ({tp} x {sp})")
    if below:
        # the least global batch is one of each of the others
        others = [given[name] for name in _FIELDS[1:] if given.get(name, 0) > 0]
        least = {**dict.fromkeys(_FIELDS, 1), "global_batch_size": math.prod(others) * dp}
        problems = [
            Diagnostic(code="ZC202", path=f"batch.{n}", message=f"batch.{n}={given[n]} must be at least 1", hint=f"batch.{n}={least[n]}")
            for n in below
        ]
        return Resolved(_plan(1, 1, dp), reasons, problems)

    total, micro, steps = (given.get(name) for name in _FIELDS)

    if total is None:
        for name, value in zip(_FIELDS[1:], (micro, steps), strict=True):
            if value is None:
                reasons[name] = rule(_PASS, "nothing asked for: 1")
        micro, steps = micro or 1, steps or 1
        reasons["global_batch_size"] = rule(_PASS, f"micro x accumulation x data parallel = {micro} x {steps} x {dp}")
        return Resolved(_plan(micro, steps, dp), reasons)

    asked_micro, asked_steps = micro, steps
    if micro is None and steps is None:
        micro = 1
        reasons["micro_batch_size"] = rule(_PASS, "nothing asked for: 1")
    if steps is None:
        assert micro is not None
        steps = total // (micro * dp)
        reasons["gradient_accumulation_steps"] = rule(
            _PASS, f"global / (micro x data parallel) = {total} / ({micro} x {dp})", "batch.global_batch_size"
        )
    elif micro is None:
        micro = total // (steps * dp)
        reasons["micro_batch_size"] = rule(
            _PASS, f"global / (accumulation x data parallel) = {total} / ({steps} x {dp})", "batch.global_batch_size"
        )
    if micro * steps * dp != total:
        return Resolved(_plan(max(1, micro), max(1, steps), dp), reasons, [_unreachable(total, asked_micro, asked_steps, topology)])
    return Resolved(_plan(micro, steps, dp), reasons)


def _plan(micro: int, steps: int, dp: int) -> BatchPlan:
    return BatchPlan(global_batch_size=micro * steps * dp, micro_batch_size=micro, gradient_accumulation_steps=steps, data_parallel_size=dp)


def _unreachable(total: int, micro: int | None, steps: int | None, topology: TopologyPlan) -> Diagnostic:
    dp = topology.data_parallel_size
    unit = (micro or 1) * (steps or 1) * dp
    if micro is not None and steps is not None:
        detail = f"micro_batch ({micro}) x gradient_accumulation ({steps}) x data_parallel ({dp}) = {unit}, not {total}"
        options = [unit]
    else:
        shown = f"micro_batch ({micro or '?'}) x gradient_accumulation ({steps or '?'}) x data_parallel ({dp})"
        detail = f"{total} = {shown} has no whole solution: {total} / {unit} = {total / unit:.6g}"
        options = [n for n in (total // unit * unit, (total // unit + 1) * unit) if n > 0]
    tp, sp = topology.tensor_parallel_degree, topology.sequence_parallel_degree
    ranks = f"data_parallel = world {topology.world_size} / (tensor {tp} x sequence {sp})"
    hint = "batch.global_batch_size=" + " or ".join(map(str, options))
    if micro is not None and steps is not None and total % (micro * dp) == 0:
        hint += f", or batch.gradient_accumulation_steps={total // (micro * dp)}"
    return Diagnostic(
        code="ZC201",
        path="batch.global_batch_size",
        message=f"batch.global_batch_size={total} cannot be reached on {counted(topology.world_size, 'rank')}",
        detail=(detail, ranks),
        hint=hint,
    )
