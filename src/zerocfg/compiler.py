"""The order of the passes; the only place that knows it. Pure: everything that it reads comes in as an argument."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from zerocfg.artifact import CompiledRun, Resources
from zerocfg.deepspeed.check import check_deepspeed
from zerocfg.diagnostics import ConfigProblems, Diagnostic, Severity, has_errors, in_order
from zerocfg.facts import Detected
from zerocfg.hidden import HIDDEN, is_secret
from zerocfg.lowered import Leaf, flatten, nest, overlay
from zerocfg.memory.check import check_memory, check_profile
from zerocfg.overlay import in_words_of_groups, laid_over
from zerocfg.passes.check import check_plan
from zerocfg.passes.lower.container import lower_container, setup, words
from zerocfg.passes.lower.deepspeed import lower_deepspeed
from zerocfg.passes.lower.environment import lower_environment, lower_resources
from zerocfg.passes.lower.torchrun import arguments, lower_torchrun
from zerocfg.passes.resolve.batch import resolve_batch
from zerocfg.passes.resolve.checkpoint import resolve_checkpoint
from zerocfg.passes.resolve.communication import resolve_communication
from zerocfg.passes.resolve.container import resolve_container
from zerocfg.passes.resolve.hardware import resolve_hardware
from zerocfg.passes.resolve.model import resolve_model
from zerocfg.passes.resolve.offload import resolve_activation_checkpointing, resolve_offload
from zerocfg.passes.resolve.optimizer import resolve_optimizer
from zerocfg.passes.resolve.precision import resolve_precision
from zerocfg.passes.resolve.run import TESTED_TORCH, resolve_torchrun, resolve_train
from zerocfg.passes.resolve.scheduler import resolve_scheduler
from zerocfg.passes.resolve.topology import resolve_topology
from zerocfg.passes.resolve.zero import resolve_zero
from zerocfg.plan import Plan
from zerocfg.provenance import Origins, Reason, asked, rule, trace
from zerocfg.resolved import Resolved
from zerocfg.schema import RunConfig
from zerocfg.schema.load import load

NO_ORIGINS = Origins()
_SETTLED = {("ZC613", "deepspeed.activation_checkpointing"), ("ZC659", "deepspeed.scheduler.params.total_num_steps")}
"""What a JSON alone leaves in doubt and a plan does not: run.initialize makes the call that the section needs, and all of the
groups' counts are optimizer steps."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a config: a run when there is no error, and everything found on the way."""

    run: CompiledRun | None
    diagnostics: list[Diagnostic]
    plan: Plan | None = None
    """What was resolved, for reports on a run that cannot be compiled; its sections may be stand-ins then."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What a planner makes of a config with open fields."""

    config: RunConfig
    """Nothing left open."""
    reasons: Mapping[str, str]
    """Config path -> why, for each field that was open."""
    problems: list[Diagnostic]


Decide = Callable[[RunConfig, "Detected | None", str], Decision]
"""zerocfg.probe.calibration.decide: (config, detected, torch's release). Injected, because it compiles its candidates itself."""


def compile_run(
    container: Mapping[str, Any],
    *,
    origins: Origins = NO_ORIGINS,
    detect: Callable[[], Detected] | None = None,
    environ: Mapping[str, str] | None = None,
    torch: str = "",
    decide: Decide | None = None,
) -> CompiledRun:
    """Compile one config. Raises ConfigProblems with every problem found."""
    outcome = examine(container, origins=origins, detect=detect, environ=environ, torch=torch, decide=decide)
    if outcome.run is None:
        raise ConfigProblems(outcome.diagnostics)
    return outcome.run


def examine(
    container: Mapping[str, Any],
    *,
    origins: Origins = NO_ORIGINS,
    detect: Callable[[], Detected] | None = None,
    environ: Mapping[str, str] | None = None,
    torch: str = "",
    decide: Decide | None = None,
) -> Outcome:
    """Compile one config as far as it goes.

    container: groups and sections by name, as plain containers. origins: where each config value was written. detect:
    looks at this machine; called only when hardware.detect is on. environ: the user's exported environment. torch: the
    release that will run, "2.11.0+cu130"; empty: the tested one. decide: fills in what the config leaves to the planner; called
    only then.
    """
    config, problems = load(container)
    detected = detect() if config.hardware.detect and detect is not None else None
    chosen: dict[str, Reason] = {}
    if left := open_fields(config):
        config, chosen, found = _decided(config, left, detected, torch, decide)
        problems += found
    plan, reasons, found = resolve(config, detected, torch)
    reasons |= chosen
    problems += found
    problems += [*check_plan(plan, as_written(reasons)), *check_profile(plan)]
    if plan.hardware.is_cuda and not any(map(_changes_memory, problems)):
        problems += check_memory(plan, allowed=_as_sound_as(plan, as_written(reasons)))

    leaves = lower_deepspeed(plan, reasons)
    over = laid_over(config.deepspeed, plan)
    problems += over.problems
    emitted = overlay(nest(leaves), over.tree)
    why = {leaf.path: leaf.reason for leaf in leaves} | {
        path: asked(over.written.get(path, f"deepspeed.{path}")) for path, _ in flatten(over.tree)
    }
    in_json = check_deepspeed(
        emitted,
        world_size=plan.topology.world_size,
        accelerator=plan.hardware.accelerator,
        compute_capability=plan.hardware.compute_capability
        if plan.hardware.is_cuda and plan.hardware.compute_capability != (0, 0)
        else None,
        trainable_params=plan.model.num_parameters if plan.model else None,
    )
    problems += [*_once(problems, in_json, why)]
    environment, found = lower_environment(plan, reasons, config.env, environ or {})
    problems += found
    torchrun, resources = lower_torchrun(plan, reasons), lower_resources(plan, reasons)
    wrapped = lower_container(plan.container, reasons, [leaf.path for leaf in environment])

    diagnostics = [with_origin(d, why, origins) for d in in_order(problems)]
    if has_errors(diagnostics):
        return Outcome(None, diagnostics, plan)
    entries = [trace(path, value, why[path], origins, reasons) for path, value in flatten(emitted)]
    others = (("torchrun", torchrun), ("environment", environment), ("resources", resources), ("container", words(wrapped)))
    for section, lowered in others:
        entries += [trace(f"{section}.{leaf.path}", _shown(section, leaf), leaf.reason, origins, reasons) for leaf in lowered]
    run = CompiledRun(
        deepspeed=emitted,
        torchrun=arguments(torchrun),
        environment={leaf.path: leaf.value for leaf in environment},
        resources=Resources(**{leaf.path: leaf.value for leaf in resources}),
        plan=plan,
        provenance={entry.path: entry for entry in entries},
        container=tuple(word for leaf in words(wrapped) for word in leaf.value),
        container_setup=setup(wrapped),
        diagnostics=tuple(diagnostics),
    )
    return Outcome(run, diagnostics, plan)


_MEMORY_FOLLOWS = ("hardware", "parallelism", "precision", "offload", "activation_checkpointing", "batch", "model")
_NO_EFFECT = ("ZC306", "ZC311", "ZC315", "ZC317", "ZC407")


def _changes_memory(problem: Diagnostic) -> bool:
    """Whether mending an error changes what the plan takes of a GPU, so that it is too early to speak of that."""
    section = problem.path.partition(".")[0]
    follows = section in _MEMORY_FOLLOWS or problem.path == "optimizer.type"
    return problem.severity is Severity.ERROR and follows and problem.code not in _NO_EFFECT


def _as_sound_as(plan: Plan, written: frozenset[str]) -> Callable[[Plan], bool]:
    """Whether a changed plan has no error that `plan` itself does not have."""

    def errors(of: Plan) -> set[tuple[str, str]]:
        return {(d.code, d.path) for d in check_plan(of, written) if d.severity is Severity.ERROR}

    known = errors(plan)
    return lambda other: errors(other) <= known


OPEN = ("parallelism.stage", "offload.optimizer", "offload.param", "activation_checkpointing.enabled", "batch.micro_batch_size")
"""Fields that may be left to the planner: null, and auto for the micro batch."""
_SECTION = {"parallelism": "zero"}


def open_fields(config: RunConfig) -> list[str]:
    """Which of them are."""
    left = []
    for path in OPEN:
        group, _, name = path.partition(".")
        value = getattr(getattr(config, group), name)
        if value == "auto" or (value is None and group != "batch"):
            left.append(path)
    return left


def as_written(reasons: Mapping[str, Reason]) -> frozenset[str]:
    """section.field of the values that stand as the user wrote them."""
    return frozenset(path for path, reason in reasons.items() if reason.config_path and not reason.by)


def _decided(
    config: RunConfig, left: list[str], detected: Detected | None, torch: str, decide: Decide | None
) -> tuple[RunConfig, dict[str, Reason], list[Diagnostic]]:
    if decide is None:
        message = f"{left[0]} is left to the planner, and nothing plans here"
        return config, {}, [Diagnostic(code="ZC124", path=left[0], message=message, hint=f"a value for {', '.join(left)}")]
    decision = decide(config, detected, torch)
    reasons: dict[str, Reason] = {}
    for path, text in decision.reasons.items():
        group, _, name = path.partition(".")
        reasons[f"{_SECTION.get(group, group)}.{name}"] = rule("resolve.planner", text, path)
    return decision.config, reasons, decision.problems


def resolve(config: RunConfig, detected: Detected | None, torch: str = "") -> tuple[Plan, dict[str, Reason], list[Diagnostic]]:
    """RunConfig -> Plan, a reason for each `section.field`, and what could not be resolved."""
    hardware = resolve_hardware(config.hardware, detected)
    model = resolve_model(config.model)
    topology = resolve_topology(config.parallelism, hardware.value, model.value)
    precision = resolve_precision(config.precision, topology.value.sequence_parallel_degree)
    optimizer = resolve_optimizer(config.optimizer, hardware.value)
    train = resolve_train(config.train, hardware.value)
    checkpoint = resolve_checkpoint(config.checkpoint)
    torchrun = resolve_torchrun(config.torchrun, hardware.value, _release(torch), saves=checkpoint.value.enabled)
    offload = resolve_offload(config.offload, model.value, topology.value)
    folders = (
        ("train.data", train.value.data),
        ("offload.nvme_path", offload.value.nvme_path),
        ("checkpoint.directory", checkpoint.value.directory if checkpoint.value.enabled else ""),
        ("checkpoint.resume", checkpoint.value.resume),
    )
    sections: dict[str, Resolved[Any]] = {
        "hardware": hardware,
        "model": model,
        "topology": topology,
        "precision": precision,
        "batch": resolve_batch(config.batch, topology.value),
        "zero": resolve_zero(
            config.parallelism,
            model.value,
            topology.value,
            optimizer.value.type,
            param_offload=config.offload.param.value if config.offload.param is not None else "none",
            parameters=config.profile.parameters if config.profile is not None else None,
            memory_bytes=hardware.value.memory_bytes if hardware.value.is_cuda else 0,
            width=4 if precision.value.dtype == "fp32" else 2,
            recomputes=bool(config.activation_checkpointing.enabled),
        ),
        "offload": offload,
        "activation_checkpointing": resolve_activation_checkpointing(config.activation_checkpointing, model.value),
        "optimizer": optimizer,
        "scheduler": resolve_scheduler(config.scheduler, config.optimizer.lr, train.value.steps),
        "checkpoint": checkpoint,
        "container": resolve_container(config.container, hardware.value, folders),
        "communication": resolve_communication(
            config.communication, hardware.value, topology.value, precision.value, torchrun.value, _release(torch)
        ),
        "torchrun": torchrun,
        "train": train,
    }
    plan = Plan(detected=config.hardware.detect, profile=config.profile, **{name: section.value for name, section in sections.items()})
    reasons = {f"{name}.{field}": why for name, section in sections.items() for field, why in section.reasons.items()}
    return plan, reasons, [problem for section in sections.values() for problem in section.problems]


def _shown(section: str, leaf: Leaf) -> object:
    if section == "container":
        return " ".join(leaf.value)
    return HIDDEN if section == "environment" and is_secret(leaf.path) else leaf.value


def _release(version: str) -> tuple[int, int]:
    """ "2.11.0+cu130" -> (2, 11)."""
    numbers = [part for part in version.split(".")[:2] if part.isdigit()]
    return (int(numbers[0]), int(numbers[1])) if len(numbers) == 2 else TESTED_TORCH


_UNSAID = Severity.NOTE + 1


def _once(plan_level: list[Diagnostic], json_level: Iterable[Diagnostic], why: Mapping[str, Reason]) -> Iterator[Diagnostic]:
    """What the JSON's checks add: a value that came from a group is spoken of there, under the name that the user wrote."""
    said: dict[str, Severity] = {}
    for found in plan_level:
        said[found.path] = min(found.severity, said.get(found.path, found.severity))
    for found in json_level:
        reason = why.get(found.path.removeprefix("deepspeed."))
        if (found.code, found.path) in _SETTLED and (reason is None or not reason.config_path.startswith("deepspeed.")):
            continue
        group = reason.config_path if reason is not None else ""
        if min(said.get(group, _UNSAID), said.get(found.path, _UNSAID)) > found.severity:
            said[found.path] = found.severity
            yield in_words_of_groups(found, why)


def with_origin(diagnostic: Diagnostic, why: Mapping[str, Reason], origins: Origins) -> Diagnostic:
    """Say who decided the value that a problem names."""
    if diagnostic.decided_by or not diagnostic.path:
        return diagnostic
    path = diagnostic.path
    if path in origins.by_path:
        text = origins.of(path)
    elif path.startswith("deepspeed.") and (reason := why.get(path.removeprefix("deepspeed."))) is not None:
        entry = trace(path, None, reason, origins)
        text = entry.source + (f" ({entry.reason})" if entry.reason else "")
    else:
        text = origins.of(path)
    return dataclasses.replace(diagnostic, decided_by=text)
