"""The one module that touches Hydra's loader.

Hydra 1.3 composes through `ConfigLoader`; which files it merged, in which order and under which package it tells only
inside, so `Loader` keeps that on the way. Everything else here is Hydra's public behaviour.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import yaml
from hydra import version
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_search_path_impl import ConfigSearchPathImpl
from hydra._internal.defaults_list import create_defaults_list
from hydra._internal.utils import create_config_search_path
from hydra.core.hydra_config import HydraConfig
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.utils import JobRuntime, setup_globals
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict, read_write
from omegaconf.errors import OmegaConfBaseException

from zerocfg.compose.fast_yaml import faster

FAILURES = (HydraException, OmegaConfBaseException, yaml.YAMLError, ValueError, TypeError, AssertionError, OSError, RecursionError)
"""What composing raises for a user's mistake. Hydra uses ValueError and assert for some of them, and a defaults list that
includes its own config recurses without end."""

JOB_NAME = "train"
"""hydra.job.name while the CLI composes: the name that ./train.py gives."""


@dataclass(frozen=True, slots=True)
class Part:
    """One config that Hydra merged, in merge order."""

    config_path: str
    """parallelism/zero3"""
    package: str
    """Where it lands: parallelism; empty for the root."""
    source: Any
    """hydra.plugins.config_source.ConfigSource; None when no source has it any more."""

    @property
    def file(self) -> Path | None:
        return file_of(self.source, self.config_path)


@dataclass(frozen=True, slots=True)
class BadLeaf:
    """A value of a config file that could not be merged."""

    part: Part
    path: str
    value: Any
    error: BaseException


@dataclass
class Recorded:
    overrides: list[Any] = field(default_factory=list)
    """Parsed."""
    parts: list[Part] = field(default_factory=list)
    bad: list[BadLeaf] = field(default_factory=list)


class Loader(ConfigLoaderImpl):  # type: ignore[misc]
    """Hydra's loader that remembers what it merged. lenient: values that do not fit are left out and kept in `recorded.bad`."""

    def __init__(self, search_path: Any) -> None:
        super().__init__(search_path)
        self.repository.sources = [faster(source) for source in self.repository.sources]
        self.recorded = Recorded()
        self.lenient = False
        self._sources: Any = self.repository
        """With the folders that hydra.searchpath adds, once a composition has got that far."""

    def compose(self, config_name: str | None, overrides: Sequence[str], *, skip_open: bool = False) -> DictConfig:
        """One composition. skip_open: leave groups out whose choice is ??? (sweeps are not refused then either)."""
        mode = RunMode.MULTIRUN if skip_open else RunMode.RUN
        cfg: DictConfig = self.load_configuration(
            config_name, list(overrides), mode, from_shell=True, validate_sweep_overrides=not skip_open
        )
        return cfg

    def apply(self, override: Any, cfg: DictConfig) -> None:
        """Apply one parsed override of a value, as Hydra does after merging the files."""
        self._apply_overrides_to_config([override], cfg)

    def is_group(self, name: str) -> bool:
        return bool(name) and bool(self._sources.group_exists(name))

    def groups(self, inside: str = "") -> list[str]:
        return [name for name in self._sources.get_group_options(inside, ObjectType.GROUP) if name != "hydra"]

    def options(self, group: str) -> list[str]:
        """Options of a group, sorted; empty when there is no such group."""
        return list(self._sources.get_group_options(group, ObjectType.CONFIG))

    def file(self, config_path: str) -> Path | None:
        """The file that a config name stands for."""
        return next((file_of(s, config_path) for s in self._sources.get_sources() if s.is_config(config_path)), None)

    def main_folder(self) -> Path | None:
        """The folder of the primary config."""
        return next((Path(s.path) for s in self._sources.get_sources() if s.provider == "main" and s.scheme() == "file"), None)

    def _parse_overrides_and_create_caching_repo(self, config_name: str | None, overrides: list[str]) -> Any:
        parsed, repo = super()._parse_overrides_and_create_caching_repo(config_name, overrides)
        self.recorded.overrides = parsed
        # hydra.searchpath makes new ones
        repo.delegate.sources = [faster(source) for source in repo.delegate.sources]
        self._sources = repo
        return parsed, repo

    def _compose_config_from_defaults_list(self, defaults: Any, repo: Any) -> DictConfig:
        self.recorded = Recorded(self.recorded.overrides, parts_of(defaults, repo.get_sources()))
        if not self.lenient:
            whole: DictConfig = super()._compose_config_from_defaults_list(defaults, repo)
            return whole
        cfg: Any = OmegaConf.create()
        for default, part in zip(defaults, self.recorded.parts, strict=True):
            loaded = self._load_single_config(default, repo).config
            try:
                cfg.merge_with(loaded)
            except OmegaConfBaseException:
                # what was merged before the failure is merged again
                for path, value in _leaves("", OmegaConf.to_container(loaded, resolve=False)):
                    try:
                        OmegaConf.update(cfg, path, value, merge=True)
                    except OmegaConfBaseException as error:
                        self.recorded.bad.append(BadLeaf(part, path, value, error))
        cfg.pop("defaults", None)
        return cast(DictConfig, cfg)


def _leaves(prefix: str, node: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(node, dict) and node:
        for key, value in node.items():
            yield from _leaves(f"{prefix}.{key}" if prefix else str(key), value)
    else:
        yield prefix, node


def parts_of(defaults: Sequence[Any], sources: Sequence[Any]) -> list[Part]:
    """defaults: Hydra's ResultDefault objects in merge order."""
    return [Part(d.config_path, d.package or "", next((s for s in sources if s.is_config(d.config_path)), None)) for d in defaults]


def file_of(source: Any, config_path: str) -> Path | None:
    """The file behind a config of a file:// or pkg:// source; None for a structured config."""
    scheme = source.scheme() if source is not None else ""
    name = config_path if config_path.endswith(".yaml") else f"{config_path}.yaml"
    if scheme == "file":
        return Path(os.path.abspath(source.path)) / name
    if scheme == "pkg":
        from importlib.resources import files

        try:
            # joinpath: a folder without __init__.py, such as zerocfg/conf, has no path of its own
            found = Path(str(files(source.path).joinpath(name)))
        except (ImportError, ValueError, TypeError):
            return None
        return found if found.is_file() else None
    return None


def parse(override: str) -> Any:
    """One override. Raises hydra.errors.OverrideParseException."""
    return OverridesParser.create().parse_overrides([override])[0]


def loader_for(config_dir: str) -> Loader:
    """config_dir: absolute folder, or pkg://module. Plugins (ours among them) add their folders to the search path."""
    return Loader(create_config_search_path(search_path_dir=config_dir))


def loader_like(cfg: DictConfig) -> Loader:
    """A loader over the same search path as an already composed app."""
    search_path = ConfigSearchPathImpl()
    for source in cfg.hydra.runtime.config_sources:
        search_path.append(provider=source.provider, path=f"{source.schema}://{source.path}")
    return Loader(search_path)


def record(cfg: DictConfig, overrides: Sequence[str]) -> Recorded:
    """What Hydra merged into `cfg`."""
    loader = loader_like(cfg)
    name = cfg.hydra.job.config_name
    mine, repo = loader._parse_overrides_and_create_caching_repo(name, list(overrides))
    listed = create_defaults_list(repo=repo, config_name=name, overrides_list=mine, prepend_hydra=True, skip_missing=False)
    return Recorded(mine, parts_of(listed.defaults, repo.get_sources()))


@contextmanager
def hydra_globals() -> Iterator[list[str]]:
    """Hydra's global state as a run would have it, put back afterwards. Yields the warnings that are raised inside."""
    heard: list[str] = []
    base, name = version.getbase(), JobRuntime.instance().get("name")
    config = HydraConfig.instance().cfg
    setup_globals()
    version.setbase(None)
    JobRuntime.instance().set("name", JOB_NAME)
    try:
        with warnings.catch_warnings(record=True) as raised:
            warnings.simplefilter("always")
            yield heard
        heard += dict.fromkeys(str(w.message) for w in raised if issubclass(w.category, UserWarning))
    finally:
        HydraConfig.instance().cfg = config
        JobRuntime.instance().set("name", name)
        version.VersionBase.instance().version_base = base


def as_first_job(cfg: DictConfig) -> None:
    """Let ${hydra:...} resolve as in job 0 of a run, its output folder included. Changes cfg.hydra and HydraConfig."""
    HydraConfig.instance().set_config(cfg)
    with read_write(cfg.hydra), open_dict(cfg.hydra):
        if OmegaConf.is_missing(cfg.hydra.job, "num"):
            cfg.hydra.job.num = 0
        if OmegaConf.is_missing(cfg.hydra.job, "id"):
            cfg.hydra.job.id = "0"
        if OmegaConf.is_missing(cfg.hydra.runtime, "output_dir"):
            # where it cannot be said either, what needs it is reported by name
            with suppress(OmegaConfBaseException):
                cfg.hydra.runtime.output_dir = os.path.abspath(os.path.join(cfg.hydra.sweep.dir, str(cfg.hydra.sweep.subdir)))
    # it keeps a copy
    HydraConfig.instance().set_config(cfg)
