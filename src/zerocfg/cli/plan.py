"""zerocfg plan: the plans that fit, by predicted speed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from zerocfg.cli import output
from zerocfg.cli.outcome import detect, examine_overrides
from zerocfg.cli.plan_measure import measure_command, words
from zerocfg.cli.plots import draw, plan_plot
from zerocfg.compiler import open_fields, resolve, with_origin
from zerocfg.compose import compose
from zerocfg.diagnostics import Diagnostic, Severity, has_errors, in_order
from zerocfg.facts import HardwareFacts
from zerocfg.memory.estimate import rank_of
from zerocfg.plan import Plan
from zerocfg.planner.cost import TERMS
from zerocfg.planner.knobs import neighbours
from zerocfg.planner.rank import Search, search, why_first
from zerocfg.planner.rates import UNKNOWN_NETWORK_GBPS, UNKNOWN_PCIE_GBPS, Rates
from zerocfg.planner.rule import rule_of_size
from zerocfg.planner.space import NONE, Axes, changed
from zerocfg.probe.calibration import stored_calibration
from zerocfg.probe.installed import installed
from zerocfg.report.scales import seconds
from zerocfg.schema import RunConfig
from zerocfg.schema.load import load
from zerocfg.traced import total
from zerocfg.units import counted, human_bytes, human_count

SLOW_LINK_GBPS, SLOW_NETWORK_GBPS = 40.0, 10.0
"""Below these, sharded gradients and parameters take longer to move than to compute."""


def plan_command(
    overrides: Sequence[str],
    *,
    as_json: bool = False,
    top: int = 5,
    measure: int = 0,
    script: str = "train.py",
    plot: str | None = None,
    config_path: str | None = None,
    config_name: str | None = None,
) -> int:
    """Print the fastest plans. as_json: a list of {overrides, tokens_per_s_per_gpu, peak_allocated_bytes, limiting, ...}, or the list
    that `check --json` prints when nothing fits.

    What `overrides` set themselves (a group, a stage, a micro batch) is kept; defaults of the primary config are not.
    """
    composed = compose(overrides, config_path=config_path, config_name=config_name)
    problems = list(composed.diagnostics)
    if not composed.container or has_errors(problems):
        return _refused(problems, as_json)  # each says already who decided it
    config, found = load(composed.container)
    problems += found
    axes = free_axes(overrides, config)
    config = opened(config, axes)
    detected = detect() if config.hardware.detect else None
    torch = installed("torch")
    plan, _, found = resolve(config, detected, torch)

    def told(*found: Diagnostic) -> list[Diagnostic]:
        """With who decided it, where that was not the planner."""
        return [d if d.path in axes.paths else with_origin(d, {}, composed.origins) for d in [*problems, *found]]

    problems += _slow_links(plan.hardware)
    if not plan.is_described:
        return _by_rule(config, plan, axes, told(*found), as_json)
    calibration = stored_calibration(plan.hardware)
    problems += calibration.problems
    result = search(config, detected, axes, torch=torch, calibration=calibration.found)
    if not result.ranked:
        return _refused(told(*result.problems, *result.too_large), as_json)
    pasted = examine_overrides(words(overrides, result.ranked[0].overrides), config_path, config_name)
    if has_errors(pasted.diagnostics):
        return _refused(pasted.diagnostics, as_json)
    output.report(told())
    if as_json:
        output.product_json([ranked.as_dict() for ranked in result.ranked])
    else:
        output.product("\n".join(report(result, config, top)))
    if plot is not None and (status := draw(plot, lambda file: plan_plot(result.ranked, file))):
        return status
    if measure:
        return measure_command(result.ranked[:measure], overrides, script, config_path, config_name)
    return 0


def free_axes(overrides: Sequence[str], config: RunConfig) -> Axes:
    """What the command line leaves to the planner: everything that it does not set, and what it sets to auto or null."""
    left = set(open_fields(config))
    written = {text.lstrip("+").partition("=")[0] for text in overrides}

    def free(group: str, name: str) -> bool:
        path = f"{group}.{name}"
        return path in left or not written & {group, path}

    return Axes(
        stage=free("parallelism", "stage"),
        offload=tuple(name for name in ("optimizer", "param") if free("offload", name)),
        checkpointing=free("activation_checkpointing", "enabled"),
        micro_batch="batch.micro_batch_size" in left or "batch.micro_batch_size" not in written,
        precision=not written & {"precision", "precision.dtype"},
    )


def opened(config: RunConfig, axes: Axes) -> RunConfig:
    """Nothing open, and nothing of the defaults where the planner is free."""
    changes: dict[str, object] = {}
    if axes.stage:
        changes["parallelism.stage"] = 3
    changes |= {f"offload.{name}": NONE for name in axes.offload}
    if axes.checkpointing:
        changes["activation_checkpointing.enabled"] = False
    if axes.micro_batch:
        changes["batch.micro_batch_size"] = None
    return changed(config, changes)


def report(result: Search, config: RunConfig, top: int) -> Iterator[str]:
    best = result.ranked[0]
    plan = best.plan
    hardware, whole = plan.hardware, rank_of(_on_one_rank(plan))
    nodes = f"{hardware.num_nodes} nodes of " if hardware.num_nodes > 1 else ""
    length = f"sequences of {whole.trace.tokens}, " if whole.trace.tokens > 1 else ""
    yield (
        f"{plan.model_name}, {human_count(total(whole.parameters.entries))} parameters, {length}on"
        f" {nodes}{hardware.gpus_per_node} x {hardware.gpu or hardware.accelerator}"
    )
    fitting = counted(len(result.ranked), "combination")
    yield f"{result.tried} plans compared, {fitting} of stage, offload and recomputation fit; rates: {result.rates.source}"
    if result.beyond_target:
        yield f"none stays within hardware.memory_target={hardware.memory_target:g}: these take more of the GPU"
    if config.batch.global_batch_size is None:
        yield "batch.global_batch_size is not given: larger micro batches make larger global batches below"
    yield ""
    words = TERMS if hardware.is_cuda else TERMS | {"compute": "compute", "host": "launches"}
    unit = f"{'tokens' if whole.trace.tokens > 1 else 'samples'}/s/{'GPU' if hardware.is_cuda else 'rank'}"
    yield f"{'':4}{unit:>13}{'MFU':>6}{'step':>11}{'allocated':>11}{'host/node':>11}  limited by"
    for number, found in enumerate(result.ranked[:top], 1):
        host = human_bytes(found.memory.host_bytes_per_node) if found.memory.host_bytes_per_node else "-"
        mfu = f"{found.mfu:.0%}" if found.mfu else "-"
        yield (
            f"{number:>3}.{found.tokens_per_s_per_gpu:>13,.0f}{mfu:>6}{seconds(found.cost.seconds):>11}"
            f"{human_bytes(found.memory.peak_allocated_bytes):>11}{host:>11}  {words[found.limiting]}"
        )
        yield f"      {' '.join(found.overrides)}"
    yield ""
    yield (
        f"1. takes {seconds(best.cost.seconds)} a step: "
        + ", ".join(f"{label} {seconds(taken)}" for name, label in words.items() if (taken := float(getattr(best.cost, name))) > 0)
        + (f" ({seconds(best.cost.recompute)} of compute is recomputation)" if best.cost.recompute else "")
    )
    if reason := why_first(result.ranked):
        yield f"   {reason}"
    yield from why(plan, result.rates)


def _on_one_rank(plan: Plan) -> Plan:
    """The plan whose rank holds whole weights and whole samples: what the model is, not what a rank has of it."""
    return replace(plan, topology=replace(plan.topology, tensor_parallel_degree=1, sequence_parallel_degree=1))


def why(plan: Plan, rates: Rates) -> Iterator[str]:
    """What the choices that no override above names are good for."""
    others = neighbours(plan, rates)
    if not others:
        return
    yield ""
    yield "what else was decided in 1., and what another value would do (zerocfg explain has the reasons)"
    for found in others:
        memory = f", {human_bytes(abs(found.more_bytes))} {'more' if found.more_bytes > 0 else 'less'}" if found.more_bytes else ""
        speed = f"{abs(found.slower):.1%} {'slower' if found.slower > 0 else 'faster'}" if abs(found.slower) >= 0.0005 else "as fast"
        yield f"  {found.path}={text(found.value)}: {text(found.other)} is {speed}{memory}"


def text(value: object) -> str:
    return "[]" if value == () else str(value).lower() if isinstance(value, bool) else str(value)


def _slow_links(hardware: HardwareFacts) -> Iterator[Diagnostic]:
    """ZC512."""
    if not hardware.is_cuda:
        return
    nvlink = hardware.link_gbps if hardware.link in ("nvlink", "nvswitch") else 0
    link = nvlink or hardware.pcie_gbps or UNKNOWN_PCIE_GBPS
    if hardware.gpus_per_node > 1 and link < SLOW_LINK_GBPS:
        staged = "" if hardware.p2p else ", through host memory: these GPUs have no peer-to-peer access"
        hint = "a larger batch.global_batch_size: at stage 1 gradients are reduced once a step, however many micro batches it has"
        yield _slow("hardware.link", f"{link:g} GB/s between the GPUs{staged}", hint)
    network = hardware.network_gbps or UNKNOWN_NETWORK_GBPS
    if hardware.num_nodes > 1 and network < SLOW_NETWORK_GBPS:
        hint = "a larger batch.global_batch_size at stage 1, or parallelism=zeropp"
        yield _slow("hardware.network_gbps", f"{network:g} GB/s between the nodes", hint)


def _slow(path: str, what: str, hint: str) -> Diagnostic:
    message = f"a slow link: {what}; communication is counted at that rate"
    return Diagnostic(code="ZC512", severity=Severity.WARNING, path=path, message=message, hint=hint)


def _by_rule(config: RunConfig, plan: Plan, axes: Axes, problems: list[Diagnostic], as_json: bool) -> int:
    if has_errors(problems):
        return _refused(problems, as_json)
    output.report(problems)
    chosen = rule_of_size(int(config.model.num_parameters or 0), plan.hardware, None if axes.stage else plan.zero.stage)
    free = (axes.stage, axes.offload, axes.checkpointing, axes.micro_batch)
    overrides = [text for text, chosen_here in zip(chosen.overrides, free, strict=True) if chosen_here]
    if as_json:
        nothing = {"tokens_per_s_per_gpu": None, "peak_allocated_bytes": None, "limiting": None}
        output.product_json([{"overrides": overrides, **nothing, "why": chosen.why}])
    else:
        output.product("\n".join([f"no prediction: {chosen.why}", *([f"  {' '.join(overrides)}"] if overrides else [])]))
    return 0


def _refused(problems: list[Diagnostic], as_json: bool) -> int:
    found = in_order(problems)
    output.report(found)
    if as_json:
        output.report_json(found)
    return 1
