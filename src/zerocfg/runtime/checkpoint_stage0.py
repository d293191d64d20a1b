"""Checkpoints of stage 0 and DeepSpeed's universal format, which knows stages 1 to 3 only: there, and back into an engine of stage 0.

At stage 0 a checkpoint holds the optimizer's state as the optimizer gives it: a tensor a weight (fp32, and FP16_UnfusedOptimizer), or one a
parameter group with all its weights in a row (FP16_Optimizer, which is bf16's too). Names are in `zerocfg_rank_00000.pt`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zerocfg.runtime.checkpoint_save import rank_file

MODEL = "mp_rank_00_model_states.pt"
"""The model's own state, and at stage 0 the optimizer's."""
_MOMENTS = ("exp_avg", "exp_avg_sq")
Group = Sequence[tuple[str, tuple[int, ...]]]
"""Names and shapes of a parameter group's weights, in the optimizer's order."""


def masters_of(saved: Mapping[str, Any], groups: Sequence[Group]) -> dict[str, Any]:
    """fp32 copies by name, of a checkpoint of stage 0 in 16 bits; empty in fp32, where the weights themselves are that.

    saved: the file MODEL. groups: what `checkpoint_save.masters` wrote.
    """
    optimizer = saved.get("optimizer") or {}
    found: dict[str, Any] = {}
    for group, flat in zip(groups, optimizer.get("fp32_groups_flat", ()), strict=False):
        found |= _split(flat, group)
    for group, copies in zip(groups, optimizer.get("fp32_groups", ()), strict=False):
        found |= {name: copy.reshape(shape) for (name, shape), copy in zip(group, copies, strict=True)}
    return found


def to_universal(source: Path, target: Path) -> list[dict[str, Any]]:
    """Write `target`/zero, as ds_to_universal.py would. Returns each group's shapes by name.

    Raises ValueError where the checkpoint has no names or no moments of Adam's.
    """
    import deepspeed
    import torch

    saved = torch.load(source / MODEL, map_location="cpu", weights_only=False)
    groups: list[Group] = torch.load(source / rank_file(0), map_location="cpu", weights_only=False).get("masters", [])
    if not groups:
        raise ValueError("it has no names of the optimizer's weights: an earlier zerocfg has saved it")
    weights = saved["module"] | masters_of(saved, groups)
    inner = saved["optimizer"].get("optimizer_state_dict", saved["optimizer"])
    zero, last = target / "zero", None
    for group, settings in zip(groups, inner["param_groups"], strict=True):
        states = [inner["state"].get(index, {}) for index in settings["params"]]
        moments = {kind: _by_name([state.get(kind) for state in states], group) for kind in _MOMENTS}
        step = next((state["step"] for state in states if "step" in state), settings.get("step"))
        if step is None or not all(moments.values()):
            raise ValueError("its optimizer has no exp_avg, exp_avg_sq and step")
        last = torch.as_tensor(float(step))
        for name, shape in group:
            folder = zero / name
            folder.mkdir(parents=True)
            values = {"fp32": weights[name].float(), **{kind: moments[kind].get(name, torch.zeros(shape)) for kind in _MOMENTS}}
            for kind, value in values.items():
                torch.save({"param": value.reshape(shape).clone()}, folder / f"{kind}.pt")
            torch.save(last, folder / "step.pt")
    plain = [{name: value for name, value in settings.items() if name != "params"} for settings in inner["param_groups"]]
    both = {"param_groups": plain, "ds_version": deepspeed.__version__}
    torch.save({**both, "optimizer_state_dict": {"state": {0: {"step": last}}, **both}}, zero / "optimizer_state.pt")
    return [{name: torch.Size(shape) for name, shape in group} for group in groups]


def _by_name(tensors: Sequence[Any], group: Group) -> dict[str, Any]:
    """One tensor for all weights of a group, or one for each; None for a weight that was never updated."""
    if len(tensors) == len(group) and all(
        value is None or tuple(value.shape) == shape for value, (_, shape) in zip(tensors, group, strict=True)
    ):
        return {name: value for value, (name, _) in zip(tensors, group, strict=True) if value is not None}
    (flat,) = tensors
    return _split(flat, group) if flat is not None else {}


def _split(flat: Any, group: Group) -> dict[str, Any]:
    """FP16_Optimizer's flat tensor may be longer than its weights."""
    found, start = {}, 0
    for name, shape in group:
        size = 1
        for length in shape:
            size *= length
        found[name] = flat.narrow(0, start, size).reshape(shape)
        start += size
    return found


def load_universal(engine: Any, folder: Path) -> None:
    """All ranks: a conversion's weights and optimizer state into a fresh engine of stage 0; then the rest by DeepSpeed's own loading."""
    import torch

    engine.load_checkpoint(str(folder.parent), tag=folder.name, load_module_strict=False, load_optimizer_states=False)
    with torch.no_grad():
        for place in places(engine):
            states = {
                kind: torch.load(folder / "zero" / place.name / f"{kind}.pt", weights_only=False)["param"] for kind in ("fp32", *_MOMENTS)
            }
            place.put(states, torch.load(folder / "zero" / place.name / "step.pt", weights_only=False))


@dataclass(frozen=True, slots=True)
class Place:
    """Where one weight's state is in a live engine of stage 0."""

    name: str
    weight: Any
    master: Any
    """Its fp32 values: the weight itself, or a copy of the optimizer's wrapper."""
    holder: Any
    """The optimizer's parameter, of this weight or, from `offset` on, of several."""
    offset: int
    optimizer: Any
    group: dict[str, Any]

    def put(self, states: Mapping[str, Any], step: Any) -> None:
        import torch

        self.master.copy_(states["fp32"].reshape(self.master.shape))
        if self.master is not self.weight:
            self.weight.copy_(states["fp32"].reshape(self.weight.shape))
        state = self.optimizer.state[self.holder]
        for kind in _MOMENTS:
            if kind not in state:
                state[kind] = torch.zeros_like(self.holder, dtype=torch.float32)
            state[kind].view(-1).narrow(0, self.offset, self.weight.numel()).copy_(states[kind].reshape(-1))
        # torch's Adam counts in a tensor, DeepSpeed's in a number; FusedAdam of before 0.16 by group
        as_tensor = torch.is_tensor(state["step"]) if "step" in state else type(self.optimizer).__module__.startswith("torch.")
        state["step"] = torch.tensor(float(step)) if as_tensor else int(step)
        if "step" in self.group:
            self.group["step"] = int(step)


def places(engine: Any) -> Iterator[Place]:
    """Of every weight that is trained."""
    wrapper, names = engine.optimizer, engine.param_names
    if not hasattr(wrapper, "fp16_groups"):
        for group in wrapper.param_groups:
            for weight in group["params"]:
                yield Place(names[weight], weight, weight, weight, 0, wrapper, group)
        return
    inner = wrapper.optimizer
    flats = getattr(wrapper, "fp32_groups_flat", None)
    for index, (weights, group) in enumerate(zip(wrapper.fp16_groups, inner.param_groups, strict=True)):
        offset = 0
        for number, weight in enumerate(weights):
            if flats is None:
                master = wrapper.fp32_groups[index][number]
                yield Place(names[weight], weight, master, master, 0, inner, group)
            else:
                flat = flats[index]
                yield Place(names[weight], weight, flat.narrow(0, offset, weight.numel()), flat, offset, inner, group)
                offset += weight.numel()
