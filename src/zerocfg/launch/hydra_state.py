"""Hydra's state around one job: what run_job does, for a process that composes nothing."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, open_dict, read_write


@contextmanager
def hydra_config(config: DictConfig) -> Iterator[None]:
    """HydraConfig as the job sees it, so that ${hydra:...} resolves."""
    instance = HydraConfig.instance()
    before = instance.cfg
    instance.set_config(config)
    try:
        yield
    finally:
        instance.cfg = before


def task_config(config: DictConfig) -> DictConfig:
    """What the task function gets: the config without the hydra node."""
    bare = copy.deepcopy(config)
    with read_write(bare), open_dict(bare):
        del bare["hydra"]
    return bare


def hydra_part(config: DictConfig) -> Any:
    """The hydra node alone, as JobReturn.hydra_cfg holds it."""
    with hydra_config(config):
        return copy.deepcopy(HydraConfig.instance().cfg)


def changes_directory(config: DictConfig) -> bool:
    """hydra.job.chdir, and Hydra's default for it: on before version base 1.2."""
    from hydra import version

    chosen = config.hydra.job.chdir
    return bool(chosen) if chosen is not None else not version.base_at_least("1.2")
