"""What a user may write: one structured config a group.

The dataclasses are mutable because Hydra composes onto them; everything after `schema.load` is frozen.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, Optional

from zerocfg.schema.activation_checkpointing import ActivationCheckpointingConfig
from zerocfg.schema.batch import BatchConfig
from zerocfg.schema.checkpoint import CheckpointConfig
from zerocfg.schema.container import ContainerConfig
from zerocfg.schema.hardware import HardwareConfig
from zerocfg.schema.model import ModelConfig
from zerocfg.schema.offload import OffloadConfig
from zerocfg.schema.optimizer import OptimizerConfig, SchedulerConfig
from zerocfg.schema.parallelism import ParallelismConfig
from zerocfg.schema.precision import PrecisionConfig
from zerocfg.schema.run import CommunicationConfig, TorchrunConfig, TrainConfig
from zerocfg.traced import ActivationTrace

GROUPS: dict[str, type] = {
    "hardware": HardwareConfig,
    "parallelism": ParallelismConfig,
    "precision": PrecisionConfig,
    "offload": OffloadConfig,
    "activation_checkpointing": ActivationCheckpointingConfig,
    "batch": BatchConfig,
    "model": ModelConfig,
    "optimizer": OptimizerConfig,
    "scheduler": SchedulerConfig,
    "checkpoint": CheckpointConfig,
    "container": ContainerConfig,
}
"""Config groups: a folder of options each."""

SECTIONS: dict[str, type] = {
    "train": TrainConfig,
    "torchrun": TorchrunConfig,
    "communication": CommunicationConfig,
}
"""Typed sections without options of their own."""

FREE: tuple[str, ...] = ("deepspeed", "env")
"""Free mappings: laid over the emitted JSON last, and extra environment."""


@dataclass
class RunConfig:
    """Everything that was asked for, typed; nothing resolved yet."""

    hardware: HardwareConfig = field(default_factory=HardwareConfig)
    parallelism: ParallelismConfig = field(default_factory=ParallelismConfig)
    precision: PrecisionConfig = field(default_factory=PrecisionConfig)
    offload: OffloadConfig = field(default_factory=OffloadConfig)
    activation_checkpointing: ActivationCheckpointingConfig = field(default_factory=ActivationCheckpointingConfig)
    batch: BatchConfig = field(default_factory=BatchConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    scheduler: SchedulerConfig = field(default_factory=SchedulerConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    container: ContainerConfig = field(default_factory=ContainerConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    torchrun: TorchrunConfig = field(default_factory=TorchrunConfig)
    communication: CommunicationConfig = field(default_factory=CommunicationConfig)
    deepspeed: Dict[str, Any] = field(default_factory=dict)
    env: Dict[str, Any] = field(default_factory=dict)
    profile: Optional[ActivationTrace] = None
    """What the file of model.profile holds: the composition reads it."""


PROFILE = "model.profile"
"""Key of a composed container that carries the content of that file; no key of a user's has a dot."""


def schema_node() -> dict[str, Any]:
    """Root node for Hydra's ConfigStore. An untyped root, so that an app may add keys of its own."""
    return {**GROUPS, **SECTIONS, **{name: {} for name in FREE}}
