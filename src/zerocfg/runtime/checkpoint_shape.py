"""Whether a run can go on from a checkpoint: as it is, converted first, or not at all. Pure, so that launchers ask before they submit.

DeepSpeed 0.19.8 loads a ZeRO checkpoint as it is only on the same number of data-parallel ranks (engine.py:4748) and stage; its universal
format (checkpoint/ds_to_universal.py) fits any number of ranks at stages 1 to 3, and checkpoint_stage0.py adds stage 0, for optimizers with
exp_avg and exp_avg_sq. It holds fp32 weights and moments, so that the precision of training may change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from zerocfg.diagnostics import Diagnostic, Severity
from zerocfg.facts import ModelFacts
from zerocfg.plan import Plan
from zerocfg.runtime.checkpoint_files import Checkpoint
from zerocfg.units import counted

_PATH = "checkpoint.resume"
_CONVERTIBLE = ("Adam", "AdamW", "")
_LAYOUT = (
    "topology.num_nodes x nproc_per_node",
    "zero.stage",
    "zero.sub_group_size",
    "zero.round_robin_gradients",
    "topology.sequence_parallel_degree",
    "offload.ratio",
    "precision.dtype",
)
"""What a rank's file depends on."""
_ALONE = ("precision.dtype",)
"""Of these what counts at stage 0, where every rank holds everything."""
_CONTINUITY = (
    "batch.global_batch_size",
    "optimizer.params",
    "optimizer.gradient_clipping",
    "scheduler.type",
    "scheduler.params",
    "train.seed",
    "train.data",
)
"""What the losses depend on beside the state."""


class Way(Enum):
    """How a checkpoint is loaded."""

    as_it_is = "as it is"
    converted = "converted"
    """By way of DeepSpeed's universal format."""
    refused = "refused"


@dataclass(frozen=True, slots=True)
class Fit:
    way: Way
    differences: tuple[str, ...]
    """What makes a conversion necessary: "zero.stage 3 -> 2"."""
    diagnostics: tuple[Diagnostic, ...]


def fit(checkpoint: Checkpoint, plan: Plan) -> Fit:
    """Codes: ZC771 it cannot be resumed with this config, ZC772 it is converted first (note), ZC773 values differ that the losses
    depend on (warning), ZC778 the run is at its end already (note)."""
    now = _values(asdict(plan))
    saved = now | _values(checkpoint.plan)  # what an earlier release did not write is what it is now
    _compare_sub_groups(saved, now, plan.model or _facts(checkpoint.plan.get("model")))
    problems = [*_refusals(checkpoint, saved, now)]
    differences = tuple(f"{name} {saved[name]} -> {now[name]}" for name in _LAYOUT if saved[name] != now[name])
    if now["zero.stage"] == 0 and saved["zero.stage"] == 0:
        differences = tuple(text for text in differences if text.startswith(_ALONE))
    if differences and not problems:
        problems += _unconvertible(checkpoint, saved, now, differences)
    if problems:
        return Fit(Way.refused, differences, tuple(problems))
    return Fit(Way.converted if differences else Way.as_it_is, differences, tuple(_remarks(checkpoint, saved, now, differences)))


def changed_settings(saved: Mapping[str, Any], plan: Plan) -> frozenset[str]:
    """Names in the emitted optimizer.params that differ from the plan that a checkpoint was saved with."""
    was, now = _plain(saved["optimizer"]["params"]), _plain(plan.optimizer.params)
    return frozenset(name for name in {*was, *now} if was.get(name) != now.get(name))


def _values(plan: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for section, fields in plan.items():
        if isinstance(fields, Mapping):
            flat |= {f"{section}.{name}": _plain(value) for name, value in fields.items()}
    flat["topology.num_nodes x nproc_per_node"] = flat["topology.num_nodes"] * flat["topology.nproc_per_node"]
    flat["model"] = _weights(plan["model"]) if plan.get("model") else None
    return flat


def _weights(model: Mapping[str, Any]) -> dict[str, Any]:
    """The dims that weights depend on."""
    without = {"name"} if model.get("positions") == "learned" else {"name", "sequence_length"}
    return {name: value for name, value in model.items() if name not in without}


def _facts(model: Mapping[str, Any] | None) -> ModelFacts | None:
    try:
        return ModelFacts(**model) if model else None
    except TypeError:  # of another release
        return None


def _compare_sub_groups(saved: dict[str, Any], now: dict[str, Any], model: ModelFacts | None) -> None:
    """Sizes count between two runs at stage 3, and there only where they cut the model: one group is one group."""
    name = "zero.sub_group_size"
    least = min(saved[name], now[name])
    if (saved["zero.stage"], now["zero.stage"]) != (3, 3) or (model is not None and least >= model.num_parameters):
        saved[name] = now[name] = 0


def _plain(value: Any) -> Any:
    """As JSON gives it back."""
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _refusals(checkpoint: Checkpoint, saved: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[Diagnostic]:
    if saved["model"] is not None and now["model"] is not None:
        changed = [name for name, value in now["model"].items() if saved["model"].get(name, value) != value]
        if changed:
            both = ", ".join(f"{name} {saved['model'].get(name)} -> {now['model'][name]}" for name in changed)
            dims = " ".join(f"model.{name}={saved['model'].get(name)}" for name in changed)
            same = saved["model.name"] == now["model.name"]
            yield _refused(checkpoint, f"the model is another one: {both}", dims if same else f"model={saved['model.name']}")
    for name, hint in (
        ("precision.master_dtype", f"precision.master_dtype={saved['precision.master_dtype']}"),
        ("topology.tensor_parallel_degree", f"parallelism.tensor_parallel_degree={saved['topology.tensor_parallel_degree']}"),
        ("optimizer.type", f"optimizer={(saved['optimizer.type'] or 'none').lower()}"),
    ):
        if saved[name] != now[name]:
            was, own = saved[name], "the script's own"
            yield _refused(checkpoint, f"{name} was {was or own}, now it is {now[name] or own}", hint)


def _unconvertible(
    checkpoint: Checkpoint, saved: Mapping[str, Any], now: Mapping[str, Any], differences: tuple[str, ...]
) -> Iterator[Diagnostic]:
    shape = ", ".join(differences)
    if now["optimizer.type"] not in _CONVERTIBLE:
        text = f"{shape}: DeepSpeed converts the states of Adam and AdamW, not of {now['optimizer.type']}"
        yield _refused(checkpoint, text, _same_shape(saved))
    if 0 in (saved["zero.stage"], now["zero.stage"]) and now["topology.tensor_parallel_degree"] > 1:
        text = (
            f"{shape}: stage 0 is not converted where weights are cut over {now['topology.tensor_parallel_degree']} tensor-parallel ranks"
        )
        yield _refused(checkpoint, text, _same_shape(saved))
    for when, plan in (("was", saved), ("is", now)):
        if "nvme" in (plan["offload.optimizer"], plan["offload.param"]):
            yield _refused(checkpoint, f"{shape}: states {when} on NVMe, which DeepSpeed does not convert", _same_shape(saved))
            return


def _same_shape(saved: Mapping[str, Any]) -> str:
    ranks = saved["topology.num_nodes x nproc_per_node"]
    return f"{counted(ranks, 'rank')} at stage {saved['zero.stage']} in {saved['precision.dtype']}, as it was saved"


def _refused(checkpoint: Checkpoint, why: str, hint: str) -> Diagnostic:
    return Diagnostic(
        code="ZC771",
        path=_PATH,
        message=f"the checkpoint of step {checkpoint.step} cannot be resumed: {why}",
        detail=(str(checkpoint.path),),
        hint=f"{hint}; or checkpoint.resume=never to start anew",
    )


def _remarks(
    checkpoint: Checkpoint, saved: Mapping[str, Any], now: Mapping[str, Any], differences: tuple[str, ...]
) -> Iterator[Diagnostic]:
    if differences:
        yield Diagnostic(
            code="ZC772",
            severity=Severity.NOTE,
            path=_PATH,
            message=f"the checkpoint of step {checkpoint.step} is converted first: {', '.join(differences)}",
            detail=(str(checkpoint.path), f"{_anew(saved, now)} start anew"),
        )
    changed = {name: both for name, *both in _changes(saved, now)}
    if changed:
        holds = "the config's values hold from here on" + (", the schedule as after so many steps" if now["scheduler.type"] else "")
        yield Diagnostic(
            code="ZC773",
            severity=Severity.WARNING,
            path=_PATH,
            message=f"{', '.join(changed)}: not what the checkpoint of step {checkpoint.step} was trained with",
            detail=(*(f"{name}: {_short(was)} -> {_short(becomes)}" for name, (was, becomes) in changed.items()), holds),
            hint="the same values, or checkpoint.resume=never",
        )
    if checkpoint.step >= now["train.steps"]:
        yield Diagnostic(
            code="ZC778",
            severity=Severity.NOTE,
            path="train.steps",
            message=f"train.steps={now['train.steps']} are done already: the checkpoint is of step {checkpoint.step}",
            detail=(str(checkpoint.path),),
            hint=f"train.steps={2 * checkpoint.step} to go on",
        )


def _anew(saved: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    scales = now["precision.dtype"] == "fp16" and (saved["precision.dtype"] != "fp16" or 0 in (saved["zero.stage"], now["zero.stage"]))
    return "random generators and the loss scale" if scales else "random generators"


def _changes(saved: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """(name, then, now) of each value of `_CONTINUITY` that differs, of mappings each entry."""
    for name in _CONTINUITY:
        was, becomes = saved[name], now[name]
        if name == "scheduler.params" and saved["scheduler.type"] != now["scheduler.type"]:
            continue  # of another schedule
        if isinstance(was, Mapping):
            yield from ((f"{name}.{key}", was.get(key), becomes.get(key)) for key in {**was, **becomes} if was.get(key) != becomes.get(key))
        elif was != becomes:
            yield name, was, becomes


def _short(value: Any) -> str:
    text = "none" if value in (None, "") else str(value)
    return text if len(text) < 100 else text[:97] + "..."
