"""hydra/launcher=zerocfg_local: torchrun on this machine, as many jobs side by side as its devices allow.

Hydra imports this at the start of every app: everything heavy is imported inside `run`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from zerocfg.launch.options import LocalLauncherConf, LocalOptions

if TYPE_CHECKING:
    from zerocfg.launch.opening import Asked

ConfigStore.instance().store(group="hydra/launcher", name="zerocfg_local", node=LocalLauncherConf, provider="zerocfg")


class CheckingLauncher(Launcher):
    """Composes, compiles and checks every job before one is started."""

    composes_first = True
    """For hydra/sweeper=zerocfg, which leaves it to the launcher then."""

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self._context, self._task_function, self._config = hydra_context, task_function, config
        # before a sweeper makes it: a refused launch leaves no empty folder behind
        self._fresh = not Path(str(config.hydra.sweep.dir)).exists()

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        from zerocfg.launch.opening import Asked

        asked = Asked(
            context=self._context,
            task_function=self._task_function,
            config=self._config,
            job_overrides=job_overrides,
            initial_job_idx=initial_job_idx,
            fresh_folder=self._fresh,
        )
        return self.run(asked)

    @abstractmethod
    def run(self, asked: Asked) -> Sequence[JobReturn]:
        """A JobReturn a job, in order."""


class ZerocfgLocalLauncher(CheckingLauncher):
    """Each job: submitit's local executor, one task, torchrun, one process a rank."""

    def __init__(self, **options: Any) -> None:
        self.options = LocalOptions(**options)

    def run(self, asked: Asked) -> Sequence[JobReturn]:
        from zerocfg.launch.launcher import launch

        return launch(asked, self.options)
