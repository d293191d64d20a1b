"""Options of the launchers, as Hydra's config groups `hydra/launcher` have them. Imported at the start of every app: nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional


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
    on_infeasible: str = "fail"
    """A point of a sweep that does not compile: fail starts nothing, skip lists it and leaves it out (its objective is NaN)."""
    retry_failed: bool = False
    """On a rerun of the same hydra.sweep.dir, take over the jobs that finished with the same overrides, and run the others."""
    preflight: bool = False
    """Before each job: zerocfg doctor on the node, and some seconds of matrix products and all-reduces on all ranks."""


@dataclass
class LocalLauncherConf(LocalOptions):
    """What the ConfigStore gets."""

    _target_: str = "hydra_plugins.zerocfg_launcher.ZerocfgLocalLauncher"
