"""Does it fit: ZC5xx, before anything is launched."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from zerocfg.diagnostics import Diagnostic, Severity
from zerocfg.memory.constants import CLOSE_TO_LIMIT
from zerocfg.memory.estimate import MemoryEstimate, ModelNotDescribed, estimate
from zerocfg.memory.host import HOST_PARTS
from zerocfg.memory.moments import PARTS
from zerocfg.memory.variants import Variant, variants, with_stage
from zerocfg.plan import Plan
from zerocfg.sizes import SWAPPED_SUB_GROUP
from zerocfg.traced import ActivationTrace, same_width, total
from zerocfg.units import human_bytes, human_count

CODES: dict[str, str] = {
    "ZC501": "The plan does not fit the GPU.",
    "ZC502": "Offloading needs more host memory than the machine has.",
    "ZC503": "The plan fits, but takes nearly all of the GPU.",
    "ZC504": "model.profile was traced of another model, length or width than the run has.",
}

SHOWN = 3
"""Parts and changes that are named."""


def check_memory(
    plan: Plan, trace: ActivationTrace | None = None, *, allowed: Callable[[Plan], bool] = lambda _: True
) -> Iterator[Diagnostic]:
    """Problems of a plan's memory. Nothing for a model that is not described: nothing is known about it.

    allowed: whether the other checks take a plan; only such ones are suggested.

    Codes: ZC501 does not fit, ZC502 host memory, ZC503 close to the limit.
    """
    try:
        found = estimate(plan, trace)
    except ModelNotDescribed:
        return
    if not found.fits:
        yield _does_not_fit(plan, found, trace, allowed)
    elif found.needed_bytes > CLOSE_TO_LIMIT * found.memory_bytes:
        yield _close(plan, found, trace, allowed)
    if 0 < plan.hardware.host_memory_bytes < found.host_bytes_per_node:
        yield _host(plan, found, trace, allowed)


COUNTS_DIFFER = 0.03
"""Share by which the parameters of a profile and of the dims may differ: dims leave out a few vectors."""


def check_profile(plan: Plan) -> Iterator[Diagnostic]:
    """ZC504: predictions would be of another run than this one."""
    trace, model = plan.profile, plan.model
    if trace is None:
        return
    again = "zerocfg profile once more, with the overrides of this run"
    if not same_width(trace.dtype, plan.precision.dtype):
        yield _profile(f"was traced in {trace.dtype}, and the run trains in {plan.precision.dtype}", f"{again}, or --dtype")
    if model is None:
        return
    alone = "model=none, so that only the profile counts"
    if trace.tokens != model.sequence_length:
        yield _profile(
            f"has samples of {trace.tokens} tokens, and model.sequence_length is {model.sequence_length}", f"{again}, or {alone}"
        )
    found = total(trace.parameters.entries) if trace.parameters is not None else model.num_parameters
    if abs(found / model.num_parameters - 1) > COUNTS_DIFFER:
        dims = f"the dims of {model.name or 'the group model'} make {human_count(model.num_parameters)}"
        yield _profile(f"has {human_count(found)} parameters, and {dims}", alone)


def _profile(problem: str, hint: str) -> Diagnostic:
    return Diagnostic(code="ZC504", path="model.profile", message=f"model.profile {problem}", hint=hint)


def fitting(
    plan: Plan, trace: ActivationTrace | None, allowed: Callable[[Plan], bool], *, accept: Callable[[MemoryEstimate], bool]
) -> list[Variant]:
    """The cheapest changes that `accept` and `allowed` take, none of which gives up all that another one gives up."""
    found: list[Variant] = []
    for variant in variants(plan):
        if any(variant.exceeds(other) for other in found) or not allowed(variant.plan):
            continue
        result = estimate(variant.plan, trace)
        if accept(result) and not 0 < plan.hardware.host_memory_bytes < result.host_bytes_per_node:
            found.append(variant)
            if len(found) == SHOWN:
                break
    return found


def _does_not_fit(plan: Plan, found: MemoryEstimate, trace: ActivationTrace | None, allowed: Callable[[Plan], bool]) -> Diagnostic:
    changes = fitting(plan, trace, allowed, accept=lambda e: e.fits)
    spare = human_bytes(found.needed_bytes - found.context_bytes - found.peak_allocated_bytes)
    return Diagnostic(
        code="ZC501",
        path="hardware.memory_bytes",
        message=(
            f"{_subject(plan)} needs {human_bytes(found.needed_bytes)} on each {'GPU' if plan.hardware.is_cuda else 'rank'}, and"
            f" {(plan.hardware.gpu or 'the GPU') if plan.hardware.is_cuda else 'its share of the machine'} has"
            f" {human_bytes(found.memory_bytes)}"
        ),
        detail=(
            f"{human_bytes(found.peak_allocated_bytes)} allocated at the peak, {found.phase}: {found.moment};"
            f" the largest parts: {_largest(found.parts, PARTS)}",
            *([f"{human_bytes(found.context_bytes)} of driver, CUDA context and NCCL, {spare} of fragmentation"] * plan.hardware.is_cuda),
        ),
        hint=_hint(changes) or _more_gpus(plan, trace),
    )


def _close(plan: Plan, found: MemoryEstimate, trace: ActivationTrace | None, allowed: Callable[[Plan], bool]) -> Diagnostic:
    changes = fitting(plan, trace, allowed, accept=lambda e: e.fits and e.needed_bytes <= CLOSE_TO_LIMIT * e.memory_bytes)
    return Diagnostic(
        code="ZC503",
        severity=Severity.WARNING,
        path="hardware.memory_bytes",
        message=(
            f"{_subject(plan)} takes {human_bytes(found.needed_bytes)} of each GPU's {human_bytes(found.memory_bytes)}:"
            f" {human_bytes(found.headroom_bytes)} are left"
        ),
        detail=(f"the largest parts: {_largest(found.parts, PARTS)}", "the estimate is within 5 % in the median, 12 % at worst"),
        hint=_hint(changes),
    )


def _host(plan: Plan, found: MemoryEstimate, trace: ActivationTrace | None, allowed: Callable[[Plan], bool]) -> Diagnostic:
    offload = plan.offload
    options = []
    for change, overrides in (
        (replace(offload, optimizer="nvme"), "offload=optimizer_nvme offload.nvme_path=PATH"),
        (replace(offload, param="none"), "offload=optimizer"),
        (replace(offload, optimizer="none", param="none"), "offload=none"),
    ):
        if change == offload or ("nvme" in change.optimizer and plan.zero.stage != 3):
            continue
        # a folder stands for the one that the user would name
        if not allowed(replace(plan, offload=replace(change, nvme_path=change.nvme_path or "/nvme"))):
            continue
        result = estimate(replace(plan, offload=change), trace)
        if result.fits and result.host_bytes_per_node <= plan.hardware.host_memory_bytes:
            options.append(overrides)
    if offload.optimizer == "nvme" and plan.zero.sub_group_size > SWAPPED_SUB_GROUP:
        smaller = replace(plan, zero=replace(plan.zero, sub_group_size=SWAPPED_SUB_GROUP))
        if estimate(smaller, trace).host_bytes_per_node <= plan.hardware.host_memory_bytes:
            options.insert(0, f"parallelism.sub_group_size={SWAPPED_SUB_GROUP}")
    return Diagnostic(
        code="ZC502",
        path="offload.optimizer" if offload.optimizer != "none" else "offload.param",
        message=(
            f"offloading needs {human_bytes(found.host_bytes_per_node)} of host memory on each node,"
            f" and there are {human_bytes(plan.hardware.host_memory_bytes)}"
        ),
        detail=(
            f"{plan.topology.nproc_per_node} ranks a node; the largest parts: {_largest(found.host_parts, HOST_PARTS)}",
            f"{human_bytes(found.pinned_bytes_per_node)} of it page-locked",
        ),
        hint=" or ".join(options) or "more nodes: each holds a part of the states",
    )


def _subject(plan: Plan) -> str:
    return f"{plan.model_name} at stage {plan.zero.stage}, micro batch {plan.batch.micro_batch_size},"


def _largest(parts: Mapping[str, int], names: Mapping[str, str]) -> str:
    most = sorted(parts.items(), key=lambda item: -item[1])[:SHOWN]
    return ", ".join(f"{names[name]} {human_bytes(size)}" for name, size in most)


def _hint(changes: list[Variant]) -> str:
    return ", or ".join(" ".join(change.overrides) for change in changes)


def _more_gpus(plan: Plan, trace: ActivationTrace | None) -> str:
    """Nothing fits on these GPUs: the fewest nodes on which stage 3 does, or the fewest ranks that share a sample."""
    base = with_stage(Variant((), plan), 3) if plan.zero.stage != 3 else Variant((), plan)
    least = replace(
        base.plan,
        activation_checkpointing=replace(plan.activation_checkpointing, enabled=True),
        batch=replace(plan.batch, micro_batch_size=1),
    )
    topology, smallest = plan.topology, "parallelism=zero3 activation_checkpointing=full batch.micro_batch_size=1"
    for nodes in (topology.num_nodes * 2**n for n in range(1, 11)):
        if estimate(replace(least, topology=replace(topology, num_nodes=nodes)), trace).fits:
            return f"hardware.num_nodes={nodes} {smallest}: nothing fits on fewer"
    for degree in _sequence_parallel_degrees(plan):
        if estimate(replace(least, topology=replace(topology, sequence_parallel_degree=degree)), trace).fits:
            return f"parallelism.sequence_parallel_degree={degree} {smallest}: no number of these GPUs is enough without"
    return "a GPU with more memory, a shorter model.sequence_length, or tensor parallelism: no number of these GPUs is enough"


def _sequence_parallel_degrees(plan: Plan) -> Iterator[int]:
    """Larger ones than the plan's that divide GPUs and heads, on one node."""
    topology, model = plan.topology, plan.model
    if model is None or topology.tensor_parallel_degree > 1:
        return
    for degree in range(topology.sequence_parallel_degree + 1, topology.nproc_per_node + 1):
        if topology.world_size % degree == 0 and model.num_attention_heads % degree == 0:
            yield degree
