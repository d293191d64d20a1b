"""Options of the launchers, as Hydra's config groups `hydra/launcher` have them. Imported at the start of every app: nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional


@dataclass
class LocalOptions:
    """hydra/launcher=zerocfg_local: torchrun on this machine, one job after another."""

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


@dataclass
class LocalLauncherConf(LocalOptions):
    """What the ConfigStore gets."""

    _target_: str = "hydra_plugins.zerocfg_launcher.ZerocfgLocalLauncher"
