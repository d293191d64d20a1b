"""hydra/launcher=zerocfg_slurm: jobs under sbatch, one task a node, torchrun in it.

Hydra imports this at the start of every app: everything heavy is imported inside `run`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn
from omegaconf import OmegaConf

from hydra_plugins.zerocfg_launcher import CheckingLauncher
from zerocfg.launch.slurm_options import SlurmLauncherConf, SlurmOptions

if TYPE_CHECKING:
    from zerocfg.launch.opening import Asked

ConfigStore.instance().store(group="hydra/launcher", name="zerocfg_slurm", node=SlurmLauncherConf, provider="zerocfg")


class ZerocfgSlurmLauncher(CheckingLauncher):
    """All jobs of a sweep that have one shape: one array."""

    def __init__(self, **options: Any) -> None:
        plain = {
            name: OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value for name, value in options.items()
        }
        self.options = SlurmOptions(**plain)

    def run(self, asked: Asked) -> Sequence[JobReturn]:
        from zerocfg.launch.slurm_launch import launch

        return launch(asked, self.options)
