"""The test cluster as fixtures. Where SLURM is missing its tests fail in CI and are skipped, with the remedy, elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.needs import require

from . import cluster as test_cluster
from .cluster import SlurmCluster


@pytest.fixture(scope="session")
def slurm_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    """The session's cluster. Tests take `slurm` instead, which leaves nothing behind for the next test."""
    require(test_cluster.missing(), os.environ)
    with SlurmCluster(tmp_path_factory.mktemp("slurm")) as cluster:
        yield cluster


@pytest.fixture
def slurm(slurm_cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlurmCluster]:
    """An idle cluster of two nodes with four GPUs each, which sbatch, srun and submitit find through os.environ."""
    env = slurm_cluster.env()
    for name in os.environ.keys() - env.keys():
        monkeypatch.delenv(name)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    yield slurm_cluster
    slurm_cluster.cancel_all()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """A failed test shows what the daemons said."""
    report = yield
    cluster = getattr(item, "funcargs", {}).get("slurm")
    if report.failed and cluster is not None:
        report.sections.append(("SLURM", cluster.tail_of_logs()))
    return report
