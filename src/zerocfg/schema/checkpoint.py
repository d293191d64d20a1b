from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Optional

from zerocfg.schema.types import Count

# `continue` is a keyword, so that the class statement cannot spell it; OmegaConf reads members by name
OnError = Enum("OnError", {"stop": "stop", "continue": "continue"})
"""What a checkpoint that cannot be written means: the run ends with an error, or goes on with a warning. The one before stays whole."""


@dataclass
class CheckpointConfig:
    """Group `checkpoint`: what is saved, how often, and what a run starts from.

    While it is on, a run also saves when it is asked to stop (SIGTERM, SIGUSR2, Ctrl-C, a time limit) and after its last step.
    """

    name: str = ""
    """The option's name, for reports."""
    enabled: Optional[bool] = None
    """Save checkpoints. Null: on where every_steps or every_minutes is given."""
    every_steps: Optional[Count] = None
    """Optimizer steps between two checkpoints. Null: none by count."""
    every_minutes: Optional[float] = None
    """Minutes between two checkpoints. Null: none by time."""
    keep_last: Count = 2
    """Whole checkpoints that are kept; older ones go once a newer one is whole. 0: all."""
    async_save: bool = False
    """Copy the state to host memory and write it while training goes on; needs host memory for one rank's files on each rank."""
    directory: str = "checkpoints"
    """Folder of the checkpoints: below the job's folder, or absolute and on a file system that all nodes share."""
    resume: str = "auto"
    """auto: from the newest whole checkpoint in `directory`, else from the start. never: from the start; checkpoints that are there
    are kept under another name. Else a path: a checkpoint, a folder of them, or a job's folder."""
    on_error: OnError = OnError.stop
    """stop or continue, when a checkpoint cannot be written. With continue a run whose last one could not be written ends as failed."""
    consolidate_on_end: bool = False
    """After the last step, also write the whole model's weights as `weights/model.safetensors` in the job's folder."""
    max_requeues: Count = 20
    """SLURM: how often a job that was stopped and has saved is put back into the queue by itself; all its restarts count. On one's own
    machine a stopped job is not started again: the same command goes on."""
