"""Hydra's own tests of a launcher, on apps that have none of zerocfg's groups: one plain process a job."""

from __future__ import annotations

import pytest
from hydra.core.plugins import Plugins
from hydra.plugins.launcher import Launcher
from hydra.test_utils.launcher_common_tests import BatchedSweeperTestSuite, IntegrationTestSuite, LauncherTestSuite

from hydra_plugins.zerocfg_launcher import ZerocfgLocalLauncher

# Hydra's own test app has configs that current OmegaConf warns about; forked helpers inherit pytest's threads.
pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.usefixtures("no_version_base")]


def test_is_found() -> None:
    assert ZerocfgLocalLauncher.__name__ in [x.__name__ for x in Plugins.instance().discover(Launcher)]


@pytest.mark.parametrize(("launcher_name", "overrides"), [("zerocfg_local", ["hydra.launcher.poll_seconds=0.05"])])
class TestLauncher(LauncherTestSuite):
    pass


@pytest.mark.parametrize(
    ("launcher_name", "overrides"), [("zerocfg_local", ["hydra.launcher.poll_seconds=0.05", "hydra.sweeper.max_batch_size=2"])]
)
class TestBatchedSweeper(BatchedSweeperTestSuite):
    pass


@pytest.mark.parametrize(
    ("task_launcher_cfg", "extra_flags"),
    [({}, ["-m", "hydra/launcher=zerocfg_local", "hydra.launcher.poll_seconds=0.05"])],
)
class TestIntegration(IntegrationTestSuite):
    pass
