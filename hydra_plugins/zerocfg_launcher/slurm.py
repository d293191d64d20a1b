"""hydra/launcher=zerocfg_slurm: jobs under sbatch, one task a node, torchrun in it.

Hydra imports this at the start of every app: everything heavy is imported inside `launch`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from zerocfg.launch.slurm_options import SlurmLauncherConf, SlurmOptions

ConfigStore.instance().store(group="hydra/launcher", name="zerocfg_slurm", node=SlurmLauncherConf, provider="zerocfg")


class ZerocfgSlurmLauncher(Launcher):
    """All jobs of a sweep that have one shape: one array."""

    def __init__(self, **options: Any) -> None:
        plain = {
            name: OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value for name, value in options.items()
        }
        self.options = SlurmOptions(**plain)
        self.context: HydraContext | None = None
        self.task_function: TaskFunction | None = None
        self.config: DictConfig | None = None

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.context, self.task_function, self.config = hydra_context, task_function, config
        # before a sweeper makes it: a refused launch leaves no empty folder behind
        self.fresh = not Path(str(config.hydra.sweep.dir)).exists()

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        from zerocfg.launch.slurm_launch import launch

        assert self.context is not None
        assert self.task_function is not None
        assert self.config is not None
        return launch(
            context=self.context,
            task_function=self.task_function,
            config=self.config,
            options=self.options,
            job_overrides=job_overrides,
            initial_job_idx=initial_job_idx,
            fresh_folder=self.fresh,
        )
