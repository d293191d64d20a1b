"""The configs of a sweep's jobs, equal to Hydra's own at a small part of its cost.

Hydra composes every job from nothing: 70-130 ms. Here the overrides are parsed once, the files read once, the merged config
kept for each option, and a job's config is a copy with the job's values applied by Hydra's own code. Whatever does not fit
goes to Hydra itself, so a result is Hydra's in every case.
"""

from __future__ import annotations

import contextlib
import os
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hydra import version
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.override_parser.types import OverrideType
from hydra.core.utils import JobRuntime
from omegaconf import DictConfig, OmegaConf
from omegaconf._utils import split_key

from zerocfg.compose.hydra_api import parts_of
from zerocfg.compose.origins import Source, read_sources
from zerocfg.compose.sweep_family import Family, finish, leads_through_interpolation
from zerocfg.compose.sweep_loader import CachedLoader
from zerocfg.nodes import along, holds_interpolation, is_interpolated

_MOST_FAMILIES = 64
"""Templates kept, about 0.5 MB each: more than one where choices change more than their own node."""


@dataclass(frozen=True, slots=True)
class SweepJob:
    """One composed job."""

    cfg: DictConfig
    parsed: tuple[Any, ...] | None
    """hydra.core.override_parser.types.Override of each override, those of the hydra node first."""
    sources: tuple[Source, ...] | None
    """What was merged, in order.

    Both as `from_hydra` takes them; None when Hydra composed the job itself."""


class SweepComposer:
    """Composes the jobs of one launch. A config file edited after the first job is not read again.

    config_loader: Hydra's, as in hydra_context.config_loader. master_config: the sweep's own config.
    """

    def __init__(self, config_loader: Any, master_config: DictConfig) -> None:
        self._hydra = config_loader
        self._master = master_config
        self._launch: _Launch | None = None
        self._context: object = None

    def compose(self, job_overrides: Sequence[str]) -> DictConfig:
        """What config_loader.load_sweep_config(master_config, job_overrides) returns or raises."""
        return self.compose_job(job_overrides).cfg

    def compose_job(self, job_overrides: Sequence[str]) -> SweepJob:
        """The same, with what was parsed and merged on the way."""
        overrides = list(job_overrides)
        launch = self._current()
        job = launch.compose(overrides) if launch is not None else None
        if job is None:
            cfg = self._hydra.load_sweep_config(self._master, overrides)
            return SweepJob(cfg, None, None)
        OmegaConf.copy_cache(from_config=self._master, to_config=job.cfg)
        return job

    def _current(self) -> _Launch | None:
        """None: a loader that is not Hydra's own."""
        if type(self._hydra) is not ConfigLoaderImpl:
            return None
        hydra = self._master.hydra
        # as written: an interpolation in one is the job's to resolve
        written: Any = OmegaConf.to_container(hydra.overrides.hydra)
        given = tuple(str(line) for line in written)
        # all that Hydra reads besides the files
        context = (given, hydra.job.config_name, os.getcwd(), JobRuntime.instance().conf.get("name"), version.getbase())
        if self._launch is None or context != self._context:
            self._launch = _Launch(CachedLoader(self._hydra, hydra.job.config_name, given), given)
            self._context = context
        return self._launch


class _Launch:
    """What is kept for one context. Its methods return None for what is left to Hydra."""

    def __init__(self, loader: CachedLoader, hydra_overrides: Sequence[str]) -> None:
        self.loader = loader
        self._of_hydra = tuple(loader.parse(line) for line in hydra_overrides)
        self._hydra_keys = [str(override.key_or_group) for override in self._of_hydra]
        self._families: OrderedDict[tuple[tuple[str, ...], frozenset[str]], Family | None] = OrderedDict()
        self._read: dict[tuple[str, str | None], Source | None] = {}
        """By config path and package; None: a part that says nothing about the app."""

    def compose(self, lines: list[str]) -> SweepJob | None:
        overrides = tuple(self.loader.parse(line) for line in lines)
        if any(_is_hydras(override) for override in overrides):
            return None
        job = None if any(o.is_sweep_override() for o in overrides) else self._from_template(overrides)
        if job is None:
            cfg, merges = self.loader.load_recorded(lines)
            job = SweepJob(cfg, (*self._of_hydra, *overrides), self._sources(merges.defaults))
        return job

    def _from_template(self, overrides: tuple[Any, ...]) -> SweepJob | None:
        groups: list[Any] = []
        values: list[Any] = []
        for override in overrides:
            is_value = isinstance(override.value(), dict) or not self.loader.files.is_group(override.key_or_group)
            (values if is_value else groups).append(override)
        prepared = self._prepared(groups)
        if prepared is None:
            return None
        cfg, defaults, choices = prepared
        for override in values:
            if override.package is not None or reads_elsewhere(cfg, override):
                return None
            self.loader._apply_overrides_to_config([override], cfg)
        try:
            finish(cfg, choices, overrides)
        except Exception:  # an interpolation of the hydra node that fails: Hydra says it
            return None
        return SweepJob(cfg, (*self._of_hydra, *overrides), self._sources(defaults))

    def _sources(self, defaults: Sequence[Any]) -> tuple[Source, ...]:
        """defaults: hydra.core.default_element.ResultDefault objects."""
        named = {(default.config_path, default.package): default for default in defaults}
        for name in named.keys() - self._read.keys():
            parts = parts_of([named[name]], self.loader.files.repo.get_sources())
            self._read[name] = next(iter(read_sources(parts, packaged_main=False)), None)
        found = [self._read[default.config_path, default.package] for default in defaults]
        return tuple(source for source in found if source is not None)

    def _prepared(self, groups: Sequence[Any]) -> tuple[DictConfig, tuple[Any, ...], Mapping[str, str]] | None:
        """Config of the group choices, its defaults list, and the choices that it does not name yet."""
        whole = {override.key_or_group for override in groups if not _is_choice(override)}
        chosen = {override.key_or_group: override for override in groups if override.key_or_group not in whole}
        while True:
            fixed = [override for override in groups if override.key_or_group not in chosen]
            family = self._family(fixed, chosen)
            if family is None or family.template is None:
                return None
            pieces = family.pieces(chosen)
            fitting = [piece for piece in pieces.values() if piece is not None]
            if len(fitting) == len(chosen):
                choices = {group: override.value() for group, override in chosen.items()}
                return family.template.copy(fitting), family.template.defaults_with(fitting), choices
            chosen = {group: override for group, override in chosen.items() if pieces[group] is not None}

    def _family(self, fixed: Sequence[Any], chosen: Mapping[str, Any]) -> Family | None:
        """One for all jobs with the same fixed choices; where a job must choose (???), one for each set of groups that jobs choose."""
        common = self._made(fixed, {})
        return common if common is not None or not chosen else self._made(fixed, chosen)

    def _made(self, fixed: Sequence[Any], chosen: Mapping[str, Any]) -> Family | None:
        key = (tuple(override.input_line for override in fixed), frozenset(chosen))
        known = self._families.get(key)
        if key in self._families and not (known is not None and known.template is not None and known.template.stale):
            self._families.move_to_end(key)
            return known
        family = None
        with contextlib.suppress(Exception):  # Hydra says it to each job that has it
            family = Family(self.loader, fixed, chosen, self._hydra_keys)
        if family is not None or not chosen:  # another job's options may do
            self._families[key] = family
        if len(self._families) > _MOST_FAMILIES:
            self._families.popitem(last=False)
        return family


def _is_hydras(override: Any) -> bool:
    """Whether an override is about Hydra's own node, groups or search path."""
    return split_key(override.key_or_group.lstrip("/"))[0].partition("/")[0] == "hydra"


def _is_choice(override: Any) -> bool:
    """group=option, the option's name written out."""
    value = override.value()
    return (
        override.type is OverrideType.CHANGE
        and override.package is None
        and isinstance(value, str)
        and "${" not in value
        and not value.endswith("???")
    )


def reads_elsewhere(cfg: DictConfig, override: Any) -> bool:
    """Whether applying an override may read or write another part of the config through an interpolation."""
    value, key = override.value(), override.key_or_group
    if leads_through_interpolation(cfg, key):
        return True
    nodes = list(along(cfg, key))
    if len(nodes) < len(split_key(key)):
        return False
    if override.is_delete() and value is None:
        return is_interpolated(nodes[-1])
    merged = isinstance(value, (dict, list)) or override.is_add() or override.is_delete()
    return merged and holds_interpolation(nodes[-1])
