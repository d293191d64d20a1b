"""The rule by size, for a model that is not described: nothing can be predicted then, and something has to be chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from zerocfg.facts import HardwareFacts
from zerocfg.planner.space import CPU, NONE
from zerocfg.units import counted, human_bytes, human_count

SMALL, MIDDLE = 1e9, 3e9
"""Parameters: below, states fit on each GPU; in between, with sharded gradients; above, parameters are sharded too."""
STATE_BYTES = 16
"""A parameter, mixed precision with Adam (Rajbhandari et al. 2020); 16.1-16.7 measured at stage 3."""
ROOM = 0.6
"""Of the card, for states: the rest is for activations and buffers."""


@dataclass(frozen=True, slots=True)
class Rule:
    changes: dict[str, Any]
    overrides: tuple[str, ...]
    why: str


def rule_of_size(num_parameters: int, hardware: HardwareFacts, stage: int | None = None) -> Rule:
    """num_parameters: 0 when not even that is known. stage: asked for; None: chosen."""
    world = hardware.num_nodes * hardware.gpus_per_node
    if stage is not None:
        return _at_stage(stage, num_parameters, hardware, world)
    if not num_parameters:
        return _rule(3, False, "the model is not described (model=none): stage 3 needs the least memory; give dims for a plan")
    count, states = human_count(num_parameters), STATE_BYTES * num_parameters
    room = ROOM * hardware.memory_bytes
    if num_parameters < SMALL and states <= room:
        stage = 1 if world > 1 else 0
        return _rule(stage, False, f"rule by size: {count} parameters, below 1B, and their states take {human_bytes(states)} at most")
    if num_parameters < MIDDLE and num_parameters * (2 + 14 / world) <= room:
        return _rule(2, False, f"rule by size: {count} parameters, below 3B: optimizer states and gradients are sharded")
    each = states / world
    offload = hardware.is_cuda and each > room
    why = f"rule by size: {count} parameters; states of 16 bytes each over {counted(world, 'rank')} are {human_bytes(each)} a GPU"
    return _rule(3, offload, why + (f", more than {ROOM:.0%} of its {human_bytes(hardware.memory_bytes)}: offload" if offload else ""))


def _at_stage(stage: int, num_parameters: int, hardware: HardwareFacts, world: int) -> Rule:
    # parameters, gradients, optimizer states with the fp32 copy (Rajbhandari et al. 2020): each is cut from its stage on
    each = num_parameters * (2 / (world if stage == 3 else 1) + 2 / (world if stage >= 2 else 1) + 12 / (world if stage else 1))
    offload = stage > 0 and hardware.is_cuda and each > ROOM * hardware.memory_bytes
    why = f"rule by size: {human_count(num_parameters)} parameters; at stage {stage} their states take {human_bytes(each)} a GPU"
    return _rule(stage, offload, why if num_parameters else f"the model is not described (model=none), and stage {stage} is asked for")


def _rule(stage: int, offload: bool, why: str) -> Rule:
    changes = {
        "parallelism.stage": stage,
        "offload.optimizer": CPU if offload else NONE,
        "offload.param": NONE,
        "activation_checkpointing.enabled": False,
        "batch.micro_batch_size": 1,
    }
    overrides = (
        f"parallelism={f'zero{stage}' if stage else 'ddp'}",
        f"offload={'optimizer' if offload else 'none'}",
        "activation_checkpointing=none",
        "batch.micro_batch_size=1",
    )
    return Rule(changes, overrides, why)
