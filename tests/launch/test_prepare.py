"""All jobs are composed and compiled first; a report names each job's problems and starts nothing."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.types import RunMode
from omegaconf import DictConfig

from zerocfg.compose.sweep import SweepComposer
from zerocfg.confsource import conf_dir
from zerocfg.facts import Detected
from zerocfg.launch.prepare import Prepared, prepare

BOX = Detected(cpus=4, host_memory_bytes=1 << 34, numa_nodes=1, reason="no driver", host="box")
Prepare = Callable[..., Prepared]


@pytest.fixture
def prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Prepare]:
    monkeypatch.chdir(tmp_path)
    with initialize_config_dir(str(conf_dir()), version_base=None):
        loader = GlobalHydra.instance().config_loader()

        def make(
            *jobs: Sequence[str], detect: Callable[[], Detected] = lambda: BOX, start: bool = True, hydra: Sequence[str] = ()
        ) -> Prepared:
            config: DictConfig = loader.load_configuration(
                config_name="zerocfg", overrides=["hydra.sweep.dir=sweep", *hydra], run_mode=RunMode.MULTIRUN
            )
            compose = SweepComposer(loader, config).compose_job
            return prepare(config, jobs, 5, compose=compose, detect=detect, environ={}, start=start)

        yield make


def test_jobs(prepared: Prepare, tmp_path: Path) -> None:
    done = prepared(["hardware=cpu", "optimizer.lr=1e-3"], ["parallelism=ddp"])
    assert not done.refused
    assert done.render() == ""
    assert [(j.number, j.overrides, j.folder, j.world_size) for j in done.jobs] == [
        (5, ("hardware=cpu", "optimizer.lr=1e-3"), tmp_path / "sweep/5", 2),
        (6, ("parallelism=ddp",), tmp_path / "sweep/6", 2),
    ]
    assert [j.run.plan.zero.stage for j in done.jobs if j.run] == [3, 0]
    assert done.jobs[1].config.hydra.runtime.output_dir == str(tmp_path / "sweep/6")
    assert (done.jobs[1].config.hydra.job.num, done.jobs[1].config.hydra.job.id) == (6, "6")
    assert list(tmp_path.iterdir()) == []


def test_all_errors_of_all_jobs(prepared: Prepare, tmp_path: Path) -> None:
    done = prepared(
        ["hardware=cpu", "batch.global_batch_size=3"],
        ["hardware=a100x4"],
        ["hardware=cpu"],
        ["hardware=cpu", "optimizer.type=Adamw2"],
        ["hardware=nothing"],
    )
    assert done.refused
    report = done.render()
    for title, code in (
        ("job 5: hardware=cpu batch.global_batch_size=3", "ZC201"),
        ("job 6: hardware=a100x4", "ZC701"),
        ("job 8: hardware=cpu optimizer.type=Adamw2", "ZC140"),
        ("job 9: hardware=nothing", "ZC110"),
    ):
        assert f"-- {title}\nerror[{code}]" in report
    assert "job 7" not in report
    assert list(tmp_path.iterdir()) == []


def test_what_several_jobs_share_is_said_once(prepared: Prepare) -> None:
    report = prepared(["hardware=a100x4"], ["hardware=a100x4", "train.seed=2"]).render()
    assert report.count("error[ZC701]") == 1
    assert report.startswith("-- job 5: hardware=a100x4\n-- job 6: hardware=a100x4 train.seed=2\nerror[ZC701]")


def test_a_single_job_has_no_heading(prepared: Prepare) -> None:
    assert prepared(["hardware=a100x4"]).render().startswith("error[ZC701]")


def test_a_dry_run_needs_no_gpus(prepared: Prepare) -> None:
    done = prepared(["hardware=a100x4", "hardware.num_nodes=2", "hardware.network=infiniband"], start=False)
    assert not done.refused
    assert done.jobs[0].world_size == 8


def test_the_machine_is_read_once(prepared: Prepare) -> None:
    calls = []

    def detect() -> Detected:
        calls.append(os.getpid())
        return BOX

    prepared(["hardware=cpu"], ["hardware=auto"], ["hardware=a100x4"], detect=detect)
    assert len(calls) == 1


def test_a_folder_may_be_named_after_the_jobs_values(prepared: Prepare, tmp_path: Path) -> None:
    subdir = "hydra.sweep.subdir=${parallelism.name}-${hydra.job.num}"
    done = prepared(["hardware=cpu", "parallelism=ddp"], ["hardware=cpu", "parallelism=zero2"], hydra=[subdir])
    assert [job.folder for job in done.jobs] == [tmp_path / "sweep/ddp-5", tmp_path / "sweep/zero2-6"]


@pytest.mark.parametrize("on", [True, False])
def test_the_garbage_collector_is_left_as_it_was(prepared: Prepare, on: bool) -> None:
    seen: list[bool] = []

    def detect() -> Detected:
        seen.append(gc.isenabled())
        return BOX

    try:
        gc.enable() if on else gc.disable()
        prepared(["hardware=auto"], detect=detect)
        assert (gc.isenabled(), seen) == (on, [False])
    finally:
        gc.enable()
