"""zerocfg memory: what a plan takes of each GPU and each node, before anything runs."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from zerocfg.cli import output
from zerocfg.cli.outcome import examine_overrides
from zerocfg.cli.plots import draw, memory_plot
from zerocfg.diagnostics import Severity
from zerocfg.memory import PARTS, MemoryEstimate, ModelNotDescribed, estimate
from zerocfg.memory.host import HOST_PARTS
from zerocfg.memory.others import others
from zerocfg.plan import Plan
from zerocfg.planner.rank import with_micro_batch
from zerocfg.units import counted, human_bytes

MEMORY_CODES = ("ZC501", "ZC502", "ZC503")
WIDTH = 58
"""Characters of the bars."""


def memory_command(
    overrides: Sequence[str],
    *,
    as_json: bool = False,
    compare: bool = False,
    plot: str | None = None,
    config_path: str | None = None,
    config_name: str | None = None,
) -> int:
    """Print the estimate. as_json: `MemoryEstimate.as_dict`; with errors other than memory's, the list that `check --json` prints;
    {fits: null, why} of a model that is not described.

    compare: also what other rules say. plot: also draw it.
    Status 0 when it fits, 1 when it does not or the config has errors, 2 when it cannot be drawn.
    """
    result = examine_overrides(overrides, config_path, config_name)
    output.report(result.diagnostics)
    broken = [d for d in result.diagnostics if d.severity is Severity.ERROR and d.code not in MEMORY_CODES]
    if broken or result.plan is None:
        if as_json:
            output.report_json(result.diagnostics)
        return 1
    try:
        found = estimate(result.plan)
    except ModelNotDescribed as why:
        output.say(str(why))
        if as_json:
            output.product_json({"fits": None, "why": str(why)})
        return 1
    if as_json:
        output.product_json(found.as_dict())
    else:
        output.product("\n".join([*report(result.plan, found), *(compared(result.plan, found) if compare else [])]))
    plan = result.plan
    if plot is not None and (status := draw(plot, lambda file: memory_plot(plan, found, file))):
        return status
    return 1 if result.run is None else 0


def report(plan: Plan, found: MemoryEstimate) -> Iterator[str]:
    cuda = plan.hardware.is_cuda
    unit = "GPU" if cuda else "rank"
    yield (
        f"{plan.model_name} on {plan.hardware.name or plan.hardware.gpu} {'fits' if found.fits else 'does not fit'}:"
        f" it needs {human_bytes(found.needed_bytes)} of a {unit}'s {human_bytes(found.memory_bytes)}"
    )
    yield (
        f"ZeRO stage {plan.zero.stage}, {plan.precision.dtype},"
        f" micro batch {plan.batch.micro_batch_size} x {plan.batch.gradient_accumulation_steps},"
        f" {counted(plan.topology.world_size, 'rank')}; activations: {found.source}"
    )
    yield ""
    share = max(1, found.peak_allocated_bytes)
    yield f"a {unit}, at the peak ({found.phase}: {found.moment})"
    for part, size in sorted(found.parts.items(), key=lambda item: -item[1]):
        yield f"  {PARTS[part]:22}{human_bytes(size):>12}{size / share:>7.1%}  {'█' * round(size / share * 30)}"
    yield f"  {'allocated':22}{human_bytes(found.peak_allocated_bytes):>12}"
    if cuda:
        yield f"  {'reserved':22}{human_bytes(found.peak_reserved_bytes):>12}  with the allocator's slack, given room"
        yield f"  {'context':22}{human_bytes(found.context_bytes):>12}  driver, CUDA context, NCCL"
    yield f"  {'needed':22}{human_bytes(found.needed_bytes):>12}  of {human_bytes(found.memory_bytes)}: " + (
        f"{human_bytes(found.headroom_bytes)} left" if found.fits else f"{human_bytes(-found.headroom_bytes)} too much"
    )
    yield ""
    yield from bars(found)
    yield ""
    yield from elsewhere(plan, found)
    yield "other micro batches"
    for size, other in other_sizes(plan):
        mark = " <" if size == plan.batch.micro_batch_size else ""
        verdict = "fits" if other.fits else "does not fit"
        target = f", within {plan.hardware.memory_target:g}" if other.within(plan.hardware.memory_target) else ""
        yield f"  {size:>4}  {human_bytes(other.peak_allocated_bytes):>9} allocated, {verdict}{target}{mark}"


STATES = ("parameters", "fp32_master", "optimizer_states", "gradients")


def compared(plan: Plan, found: MemoryEstimate) -> Iterator[str]:
    """DeepSpeed's estimator and accelerate's rule beside ours."""
    states = max(sum(m.parts.get(part, 0) for part in STATES) for m in found.moments)
    yield ""
    yield "the same plan by other rules, a GPU"
    for rule in others(plan):
        yield f"  {rule.name:50}{human_bytes(rule.bytes):>10}  {rule.counts}"
    yield f"  {'zerocfg, model states':50}{human_bytes(states):>10}  parameters, gradients, master weights, optimizer states"
    yield f"  {'zerocfg, all that is allocated':50}{human_bytes(found.peak_allocated_bytes):>10}"


def bars(found: MemoryEstimate) -> Iterator[str]:
    """The highest moment of each phase, stacked and to scale with the GPU (or with what does not fit it)."""
    full = max(found.memory_bytes, found.needed_bytes, 1)
    names: list[str] = []
    rows = []
    for phase in found.phases:
        top = max((m for m in found.moments if m.phase == phase), key=lambda m: m.total)
        row = ""
        for part, size in sorted(top.parts.items(), key=lambda item: list(PARTS).index(item[0])):
            if part not in names:
                names.append(part)
            letter = letter_of(part)
            row += letter * round(size / full * WIDTH)
        rows.append(f"  {phase:9}|{row[:WIDTH]:{WIDTH}}| {human_bytes(top.total)}")
    yield from rows
    legend = ", ".join(f"{letter_of(part)} {PARTS[part]}".replace(" ", "\xa0") for part in names)
    yield from (line.replace("\xa0", " ") for line in textwrap.wrap(legend, 80, initial_indent="  ", subsequent_indent="  "))


LETTERS = dict(zip(PARTS, "pmsgGahroALtw", strict=True))


def letter_of(part: str) -> str:
    return LETTERS[part]


def elsewhere(plan: Plan, found: MemoryEstimate) -> Iterator[str]:
    if found.host_bytes_per_node:
        limit = plan.hardware.host_memory_bytes
        yield (
            f"a node's memory: {human_bytes(found.host_bytes_per_node)}"
            + (f" of {human_bytes(limit)}" if limit else "")
            + (f", {human_bytes(found.pinned_bytes_per_node)} page-locked")
        )
        for part, size in sorted(found.host_parts.items(), key=lambda item: -item[1]):
            yield f"  {HOST_PARTS[part]:22}{human_bytes(size):>12}"
        yield ""
    if found.nvme_bytes_per_node:
        yield f"a node's NVMe: {human_bytes(found.nvme_bytes_per_node)}"
        yield ""


def other_sizes(plan: Plan) -> Iterator[tuple[int, MemoryEstimate]]:
    """Powers of two around the plan's own micro batch, up to the first that does not fit."""
    own = plan.batch.micro_batch_size
    sizes = sorted({2**n for n in range(11)} | {own})
    for size in sizes:
        if size > 4 * own and size > 8:
            break
        other = estimate(with_micro_batch(plan, size))
        yield size, other
        if not other.fits and size >= own:
            break
