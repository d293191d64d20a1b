"""hydra/launcher=zerocfg_local: torchrun on this machine, as many jobs side by side as its devices allow.

Hydra imports this at the start of every app: everything heavy is imported inside `run`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from zerocfg.launch.options import LocalOptions, launcher_node

if TYPE_CHECKING:
    from zerocfg.launch.opening import Asked

ConfigStore.instance().store(
    group="hydra/launcher",
    name="zerocfg_local",
    node=launcher_node(LocalOptions, "hydra_plugins.zerocfg_launcher.ZerocfgLocalLauncher"),
    provider="zerocfg",
)


class CheckingLauncher(Launcher):
    """Composes, compiles and checks every job before one is started."""

    composes_first = True
    """For hydra/sweeper=zerocfg, which leaves it to the launcher then."""

    def __init__(self, **given: Any) -> None:
        self._given = given  # looked at with the jobs, so that all problems are told at once

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self._context, self._task_function, self._config = hydra_context, task_function, config
        # before a sweeper makes it: a refused launch leaves no empty folder behind
        self._fresh = not Path(str(config.hydra.sweep.dir)).exists()
        self._feasible = False
        """A point could run, of whatever batch."""

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Raises LaunchRefused when not a single job of the sweep could run, whatever the batches were."""
        from zerocfg.launch.opening import NONE_FEASIBLE, Asked, LaunchRefused, LeftOut

        asked = Asked(
            context=self._context,
            task_function=self._task_function,
            config=self._config,
            job_overrides=job_overrides,
            initial_job_idx=initial_job_idx,
            fresh_folder=self._fresh,
        )
        returns = self.run(asked, self._given)
        self._feasible = self._feasible or not all(isinstance(ret, LeftOut) for ret in returns)
        if not self._feasible and asked.is_last:
            raise LaunchRefused(NONE_FEASIBLE)
        return returns

    @abstractmethod
    def run(self, asked: Asked, given: Mapping[str, Any]) -> Sequence[JobReturn]:
        """A JobReturn a job, in order. given: hydra.launcher as it was composed."""


class ZerocfgLocalLauncher(CheckingLauncher):
    """Each job: submitit's local executor, one task, torchrun, one process a rank."""

    def run(self, asked: Asked, given: Mapping[str, Any]) -> Sequence[JobReturn]:
        from zerocfg.launch.launcher import launch

        return launch(asked, given)
