"""Hydra's own loader with its inputs kept: parsed overrides and files. What it composes is Hydra's code, unchanged.

Valid as long as nobody edits a config file: one launch.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import IConfigRepository
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.types import RunMode
from omegaconf import DictConfig

from zerocfg.nodes import clone, is_interpolated, leaves, value_of

_MOST_PARSED = 10_000
"""Overrides kept: a sweep over a float has a new one a job."""


class CachedLoader(ConfigLoaderImpl):  # type: ignore[misc]
    """Gives what `origin` gives for `hydra_overrides` followed by a job's own. Those may not change hydra.searchpath."""

    def __init__(self, origin: Any, config_name: str | None, hydra_overrides: Sequence[str]) -> None:
        # not super().__init__: it would look for the sources anew
        self.config_search_path = origin.config_search_path
        self.repository = origin.repository
        self._name = config_name
        self._hydra_overrides = list(hydra_overrides)
        self._parser = OverridesParser.create()
        self._parsed: dict[str, Any] = {}
        self._kept: _Files | None = None
        self._merges: Merges | None = None

    def load(self, overrides: Sequence[str]) -> DictConfig:
        """Hydra's load_sweep_config, the resolver cache aside; raises what it raises."""
        loaded: DictConfig = self.load_configuration(self._name, [*self._hydra_overrides, *overrides], RunMode.RUN)
        return loaded

    def load_recorded(self, overrides: Sequence[str]) -> tuple[DictConfig, Merges]:
        """As load, with what was merged."""
        self._merges = merges = Merges()
        try:
            return self.load(overrides), merges
        finally:
            self._merges = None

    def parse(self, override: str) -> Any:
        """One override. Raises hydra.errors.OverrideParseException."""
        found = self._parsed.get(override)
        if found is None:
            (found,) = self._parser.parse_overrides([override])
            if len(self._parsed) >= _MOST_PARSED:
                self._parsed.clear()
            if "shuffle" not in override:  # drawn anew at each parse
                self._parsed[override] = found
        return found

    @property
    def files(self) -> _Files:
        if self._kept is None:
            _, repo = super()._parse_overrides_and_create_caching_repo(self._name, self._hydra_overrides)
            self._kept = _Files(repo)
        return self._kept

    def _parse_overrides_and_create_caching_repo(self, config_name: str | None, overrides: list[str]) -> tuple[list[Any], Any]:
        return [self.parse(override) for override in overrides], _Loads(self.files)

    def _compose_config_from_defaults_list(self, defaults: Any, repo: Any) -> DictConfig:
        if self._merges is not None:
            self._merges.defaults = tuple(defaults)
        composed: DictConfig = super()._compose_config_from_defaults_list(defaults, repo)
        return composed

    def _load_single_config(self, default: Any, repo: Any) -> Any:
        loaded = super()._load_single_config(default, repo)
        if self._merges is not None and isinstance(loaded.config, DictConfig):
            self._merges.add(loaded.config)
        return loaded


class _Files:
    """What the sources hold, looked up once."""

    def __init__(self, repo: Any) -> None:
        self.repo = repo
        self._groups: dict[str, bool] = {}

    def is_group(self, path: str) -> bool:
        if path not in self._groups:
            self._groups[path] = self.repo.group_exists(path)
        return self._groups[path]

    def defaults_of(self, path: str) -> list[Any]:
        """The defaults list of a config; empty for none."""
        loaded = self.repo.load_config(path)
        return (loaded.defaults_list or []) if loaded is not None else []


class _Loads(IConfigRepository):  # type: ignore[misc]
    """Repository of one composition: its own copy of each config, because merging moves the nodes of what was loaded."""

    def __init__(self, files: _Files) -> None:
        self._files = files
        self._own: dict[str, Any] = {}

    def load_config(self, config_path: str) -> Any:
        if config_path not in self._own:
            loaded = self._files.repo.load_config(config_path)
            if loaded is not None:
                loaded = copy.copy(loaded)
                loaded.config = clone(loaded.config)
            self._own[config_path] = loaded
        return self._own[config_path]

    def group_exists(self, config_path: str) -> bool:
        return self._files.is_group(config_path)

    def config_exists(self, config_path: str) -> bool:
        return bool(self._files.repo.config_exists(config_path))

    def get_group_options(self, group_name: str, *args: Any, **kwargs: Any) -> Any:
        return self._files.repo.get_group_options(group_name, *args, **kwargs)

    def get_schema_source(self) -> Any:
        return self._files.repo.get_schema_source()

    def get_sources(self) -> Any:
        return self._files.repo.get_sources()

    def initialize_sources(self, config_search_path: Any) -> None:
        raise NotImplementedError("the sources of a launch are fixed")


Path = tuple[str, ...]


@dataclass
class Merges:
    """What one composition merged, in order."""

    defaults: tuple[Any, ...] = ()
    """hydra.core.default_element.ResultDefault of each."""
    _written: list[dict[Path, str]] = field(default_factory=list)
    """For each: path of a leaf -> its interpolation, "" for any other value."""

    def add(self, config: DictConfig) -> None:
        self._written.append({path: str(value_of(node)) if is_interpolated(node) else "" for path, node in leaves(config)})

    @property
    def independent(self) -> bool:
        """Whether no top-level key's merge can have read another top-level key.

        OmegaConf reads while merging only where something is laid over an interpolation, and keeps what it read only when that is a
        container.
        """
        all_interpolated = {path for written in self._written for path, text in written.items() if text}
        over: set[Path] = set()
        for written in reversed(self._written):
            for path, text in written.items():
                if text and path in over and _may_be_container(text, all_interpolated):
                    return False
            for path in written:
                over.update(path[:n] for n in range(1, len(path) + 1))
        return True


_INSIDE_HYDRA = re.compile(r"\$\{(hydra(?:\.\w+)+)\}")
_FROM_OUTSIDE = re.compile(r"\$\{(?:now|hydra|oc\.env):[^${}]*\}")


def _may_be_container(text: str, all_interpolated: set[Path]) -> bool:
    """Whether an interpolation may lead to a mapping or list outside the hydra node."""
    if not (text.startswith("${") and text.endswith("}")) or _FROM_OUTSIDE.fullmatch(text):
        return False
    if (inside := _INSIDE_HYDRA.fullmatch(text)) is not None:
        target = tuple(inside[1].split("."))
        return any(target[: len(path)] == path or path[: len(target)] == target for path in all_interpolated)
    return True


def group_defaults(files: _Files, defaults: Sequence[Any]) -> Iterator[Any]:
    """Every entry of the defaults lists of the configs that were merged."""
    for path in dict.fromkeys(default.config_path for default in defaults):
        yield from files.defaults_of(path)
