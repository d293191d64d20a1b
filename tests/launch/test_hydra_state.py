"""A job's config as Hydra's own run_job makes it, at a small part of its cost."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict, read_write
from omegaconf.errors import ReadonlyConfigError

from tests.compose.test_sweep import described
from zerocfg.confsource import conf_dir
from zerocfg.launch.hydra_state import hydra_config, hydra_part, task_config
from zerocfg.launch.payload import frozen


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DictConfig]:
    monkeypatch.chdir(tmp_path)
    with initialize_config_dir(str(conf_dir()), version_base=None):
        overrides = ["hardware=cpu", "+note.job=${hydra:job.name}", "+note.at=${now:%f}"]
        yield GlobalHydra.instance().config_loader().load_configuration("zerocfg", overrides, RunMode.RUN)
    HydraConfig.instance().cfg = None


def test_the_parts_are_what_run_job_takes(config: DictConfig) -> None:
    HydraConfig.instance().set_config(config)
    hydras = copy.deepcopy(HydraConfig.instance().cfg)
    bare = copy.deepcopy(config)
    with read_write(bare), open_dict(bare):
        del bare["hydra"]
    assert described(hydra_part(config)) == described(hydras)
    assert described(task_config(config)) == described(bare)


def test_the_parts_share_nothing_with_the_config(config: DictConfig) -> None:
    whole = OmegaConf.to_yaml(config)
    task, hydra = task_config(config), hydra_part(config)
    task.train.steps = 17
    with read_write(hydra.hydra):
        hydra.hydra.job.name = "spoiled"
    assert OmegaConf.to_yaml(config) == whole


def test_the_hydra_node_resolves_inside_alone_and_cannot_be_changed(config: DictConfig) -> None:
    before: Any = HydraConfig.instance().cfg
    with hydra_config(config):
        assert config.note.job == config.hydra.job.name
        with pytest.raises(ReadonlyConfigError):
            config.hydra.job.name = "spoiled"
    assert HydraConfig.instance().cfg is before


def test_what_a_resolver_of_its_own_gave_is_the_same_in_every_rank(config: DictConfig) -> None:
    written = OmegaConf.to_yaml(config)
    with hydra_config(config):
        at = config.note.at
        travels = frozen(config)
    assert OmegaConf.to_container(travels.note, resolve=False) == {"job": "${hydra:job.name}", "at": at}
    assert OmegaConf.to_yaml(config) == written
