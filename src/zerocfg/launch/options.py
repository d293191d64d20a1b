"""Options of the launchers, as Hydra's config group `hydra/launcher` has them. Imported at the start of every app: nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Optional

from omegaconf import DictConfig, OmegaConf


class OnInfeasible(Enum):
    fail = "fail"
    """Nothing is started."""
    skip = "skip"
    """The point is listed and left out; the sweeper gets NaN for it."""


@dataclass
class LocalOptions:
    """hydra/launcher=zerocfg_local: torchrun on this machine; jobs wait for free GPUs and run side by side where they fit."""

    timeout_min: Optional[float] = None  # noqa: UP045 - OmegaConf reads this spelling on every Python
    """Minutes until a job is stopped. Null: no limit."""
    poll_seconds: float = 0.2
    """Seconds between two looks at a running job and its log."""
    python: Optional[str] = None  # noqa: UP045
    """Interpreter of torchrun and the ranks; it must have zerocfg installed. Null: the launcher's own."""
    progress: bool = True
    """On a terminal, show a bar of the training steps."""
    dry_run: bool = False
    """Write each job's folder, compiled/ included, and start nothing."""
    max_parallel: Optional[int] = None  # noqa: UP045
    """Most jobs at a time. Null: as many as the GPUs (on cpu: the cores) allow."""
    on_infeasible: OnInfeasible = OnInfeasible.fail
    """A point of a sweep that does not compile: fail starts nothing, skip lists it and leaves it out (its objective is NaN; with Optuna
    it is a failed trial)."""
    retry_failed: bool = False
    """On a rerun of the same hydra.sweep.dir, take over the jobs that finished with the same overrides, and run the others."""
    preflight: bool = False
    """Before each job: zerocfg doctor on the node, and some seconds of matrix products and all-reduces on all ranks."""


def launcher_node(options: type, target: str) -> DictConfig:
    """What the ConfigStore gets. Hydra takes any name and any value in it: the launcher reports all that is wrong with them at once,
    together with the jobs' problems (`read_options`)."""
    defaults: Any = OmegaConf.to_container(OmegaConf.structured(options), enum_to_str=True)
    return OmegaConf.create({"_target_": target, **defaults}, flags={"struct": False})
