"""hydra/launcher=zerocfg_slurm: jobs under sbatch, one task a node, torchrun in it.

Hydra imports this at the start of every app: everything heavy is imported inside `run`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn

from hydra_plugins.zerocfg_launcher import CheckingLauncher
from zerocfg.launch.options import launcher_node
from zerocfg.launch.slurm_options import SlurmOptions

if TYPE_CHECKING:
    from zerocfg.launch.opening import Asked

ConfigStore.instance().store(
    group="hydra/launcher",
    name="zerocfg_slurm",
    node=launcher_node(SlurmOptions, "hydra_plugins.zerocfg_launcher.slurm.ZerocfgSlurmLauncher"),
    provider="zerocfg",
)


class ZerocfgSlurmLauncher(CheckingLauncher):
    """All jobs of a sweep that have one shape: one array."""

    def run(self, asked: Asked, given: Mapping[str, Any]) -> Sequence[JobReturn]:
        from zerocfg.launch.slurm_launch import launch

        return launch(asked, given)
