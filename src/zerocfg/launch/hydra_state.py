"""Hydra's state around one job: what run_job does, for a process that composes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from zerocfg.nodes import masked_copy, without


@contextmanager
def hydra_config(config: DictConfig) -> Iterator[None]:
    """HydraConfig as the job sees it, so that ${hydra:...} resolves: `set_config` without its copy of the hydra node."""
    instance = HydraConfig.instance()
    before = instance.cfg
    OmegaConf.set_readonly(config.hydra, True)
    instance.cfg = config
    try:
        yield
    finally:
        instance.cfg = before


def task_config(config: DictConfig) -> DictConfig:
    """What the task function gets: the config without the hydra node."""
    return without(config, "hydra")


def hydra_part(config: DictConfig) -> DictConfig:
    """The hydra node alone, read-only, as JobReturn.hydra_cfg holds it."""
    OmegaConf.set_readonly(config.hydra, True)
    return masked_copy(config, "hydra")


def changes_directory(config: DictConfig) -> bool:
    """hydra.job.chdir, and Hydra's default for it: on before version base 1.2."""
    from hydra import version

    chosen = config.hydra.job.chdir
    return bool(chosen) if chosen is not None else not version.base_at_least("1.2")
