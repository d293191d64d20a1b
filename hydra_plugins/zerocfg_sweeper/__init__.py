"""hydra/sweeper=zerocfg: Hydra's basic sweeper, without composing every job twice.

Hydra imports this at the start of every app: nothing heavy may be imported here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper, BasicSweeperConf
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.types import Override
from hydra.errors import CompactHydraException, HydraException

ConfigStore.instance().store(
    group="hydra/sweeper",
    name="zerocfg",
    node=BasicSweeperConf(_target_="hydra_plugins.zerocfg_sweeper.ZerocfgSweeper"),
    provider="zerocfg",
)


class ZerocfgSweeper(BasicSweeper):  # type: ignore[misc]
    """Hydra's composes each job only to see whether it can: 100 ms a job, and the first mistake ends it. zerocfg's launchers do that
    for all jobs and report all that is wrong; with another launcher it is done as Hydra does it."""

    def validate_batch_is_legal(self, batch: Sequence[Sequence[str]]) -> None:
        if not getattr(self.launcher, "composes_first", False):
            super().validate_batch_is_legal(batch)

    def sweep(self, arguments: list[str]) -> Any:
        """The JobReturns, a list a batch. Raises LaunchRefused when the folder cannot be made (ZC755)."""
        self._make_folder()
        return super().sweep(arguments)

    def _make_folder(self) -> None:
        """As Hydra's own does it next, with a report in place of a stack."""
        folder = Path(str(self.config.hydra.sweep.dir))
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            from zerocfg.diagnostics import render_report
            from zerocfg.launch.folders import unwritable
            from zerocfg.launch.opening import LaunchRefused

            report = render_report([unwritable(folder, error, hint="hydra.sweep.dir=DIR")])
            raise LaunchRefused(f"{report}\n\nnothing was started") from None

    @staticmethod
    def split_arguments(overrides: list[Override], max_batch_size: int | None) -> list[list[list[str]]]:
        try:
            batches: list[list[list[str]]] = BasicSweeper.split_arguments(overrides, max_batch_size)
        except CompactHydraException:
            raise
        except HydraException as problem:  # interval(0,1): a mistake of the user's needs no stack
            raise CompactHydraException(f"hydra/sweeper=zerocfg: {problem}") from None
        return batches
