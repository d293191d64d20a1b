"""Hydra's own tests of a launcher against hydra/launcher=zerocfg_slurm, all of them, unmodified, on the test cluster."""

from __future__ import annotations

import pytest
from hydra.core.plugins import Plugins
from hydra.plugins.launcher import Launcher
from hydra.test_utils.launcher_common_tests import BatchedSweeperTestSuite, IntegrationTestSuite, LauncherTestSuite

from hydra_plugins.zerocfg_launcher.slurm import ZerocfgSlurmLauncher

# Hydra's own test app has configs that current OmegaConf warns about
pytestmark = [
    pytest.mark.slurm,
    pytest.mark.integration,
    pytest.mark.filterwarnings("default"),
    pytest.mark.usefixtures("slurm", "no_version_base"),
]
FAST = ["hydra.launcher.poll_seconds=0.2"]


def test_is_found_once() -> None:
    assert [x.__name__ for x in Plugins.instance().discover(Launcher)].count(ZerocfgSlurmLauncher.__name__) == 1


@pytest.mark.parametrize(("launcher_name", "overrides"), [("zerocfg_slurm", FAST)])
class TestLauncher(LauncherTestSuite):
    pass


@pytest.mark.parametrize(("launcher_name", "overrides"), [("zerocfg_slurm", [*FAST, "hydra.sweeper.max_batch_size=2"])])
class TestBatchedSweeper(BatchedSweeperTestSuite):
    pass


@pytest.mark.parametrize(("task_launcher_cfg", "extra_flags"), [({}, ["-m", "hydra/launcher=zerocfg_slurm", *FAST])])
class TestIntegration(IntegrationTestSuite):
    pass
