"""What a composition keeps for the next job: a template of the whole config, and one top-level node for each option of a group.

A template is Hydra's own result for the group choices alone. A job's config is a copy of it, onto which Hydra's own code
applies the job's values; then the few fields of the hydra node that name the overrides are written.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hydra._internal.config_loader_impl import get_overrides_dirname
from omegaconf import DictConfig
from omegaconf._utils import split_key

from zerocfg.compose.sweep_loader import CachedLoader, Merges, group_defaults
from zerocfg.nodes import along, children, clone, holds_interpolation, is_interpolated, same, shell


@dataclass(frozen=True, slots=True)
class Piece:
    """What choosing an option changes in a template."""

    key: str = ""
    """Top-level key; empty: nothing changes."""
    node: Any = None
    at: int = 0
    """Place in the defaults list."""
    default: Any = None


@dataclass(frozen=True, slots=True)
class Template:
    """A composed config without overrides of values, its hydra node complete but for the names of the overrides."""

    cfg: DictConfig
    defaults: tuple[Any, ...]
    environ: Mapping[str, str]
    """hydra.job.env_copy as read."""

    @property
    def stale(self) -> bool:
        return any(os.environ.get(name) != value for name, value in self.environ.items())

    def copy(self, pieces: Iterable[Piece]) -> DictConfig:
        """The config with other options of some groups."""
        nodes = {piece.key: piece.node for piece in pieces}
        root: DictConfig = shell(self.cfg)
        content = root.__dict__["_content"]
        for key, node in children(self.cfg).items():
            content[key] = clone(nodes.get(key, node), root)
        return root

    def defaults_with(self, pieces: Iterable[Piece]) -> tuple[Any, ...]:
        defaults = list(self.defaults)
        for piece in pieces:
            if piece.key:
                defaults[piece.at] = piece.default
        return tuple(defaults)


def make_template(cfg: DictConfig, merges: Merges, num_overrides: int) -> Template | None:
    """cfg: composed with so many task overrides. None: its hydra node depends on the rest of the config."""
    copied = cfg.hydra.job._get_node("env_copy")
    if is_interpolated(children(cfg)["hydra"]) or holds_interpolation(copied):
        return None
    tasks = cfg.hydra.overrides.task.__dict__["_content"]
    del tasks[len(tasks) - num_overrides :]
    return Template(cfg, merges.defaults, {name: cfg.hydra.job.env_set[name] for name in cfg.hydra.job.env_copy})


def finish(cfg: DictConfig, choices: Mapping[str, str], overrides: Sequence[Any]) -> None:
    """Write what Hydra writes about a job's overrides. choices: group -> option, of groups in the template's choices."""
    hydra = cfg.hydra
    known = hydra.runtime.choices
    for group, option in choices.items():
        known[group] = option
    task = hydra.overrides.task
    for override in overrides:
        task.append(override.input_line)
    job = hydra.job
    naming = job.config.override_dirname
    job.override_dirname = get_overrides_dirname(
        overrides=overrides, kv_sep=naming.kv_sep, item_sep=naming.item_sep, exclude_keys=naming.exclude_keys
    )


class Family:
    """Jobs whose group choices differ from those of one template by options of its defaults list."""

    def __init__(self, loader: CachedLoader, fixed: Sequence[Any], chosen: Mapping[str, Any], hydra_keys: Sequence[str]) -> None:
        """fixed: group overrides of every job. chosen: group -> override, of the template alone. hydra_keys: overridden in the hydra
        node. Raises what Hydra raises."""
        self._loader = loader
        self._fixed = tuple(fixed)
        self._chosen = dict(chosen)
        base = [*fixed, *chosen.values()]
        cfg, merges = loader.load_recorded([o.input_line for o in base])
        self.template = make_template(cfg, merges, len(base))
        self._pieces: dict[tuple[str, str], Piece | None] = {}
        named = any("${" in _text(entry) for entry in group_defaults(loader.files, merges.defaults))
        self._splits = not named and not any(leads_through_interpolation(cfg, key) for key in hydra_keys)

    def pieces(self, chosen: Mapping[str, Any]) -> dict[str, Piece | None]:
        """chosen: group -> override. For each group what its option changes; None: more than one node, or one taken already."""
        found: dict[str, Piece | None] = {}
        taken: set[str] = set()
        for group, override in chosen.items():
            piece = self._piece(group, override) if self._splits else None
            if piece is not None and piece.key in taken:
                piece = None
            if piece is not None and piece.key:
                taken.add(piece.key)
            found[group] = piece
        return found

    def _piece(self, group: str, override: Any) -> Piece | None:
        at = (group, override.value())
        if at not in self._pieces:
            self._pieces[at] = self._learn(group, override)
        return self._pieces[at]

    def _learn(self, group: str, override: Any) -> Piece | None:
        """Let Hydra compose the base with this one option, and keep what differs if it is one node that depends on nothing else."""
        if self.template is None or group not in self.template.cfg.hydra.runtime.choices:
            return None
        overrides = [*self._fixed, *{**self._chosen, group: override}.values()]
        try:
            cfg, merges = self._loader.load_recorded([o.input_line for o in overrides])
        except Exception:  # the job that asked gets it from Hydra itself
            return None
        piece = self._difference(group, self.template.defaults, merges.defaults, cfg) if merges.independent else None
        if piece is None:
            return None
        expected = self.template.copy([piece])
        finish(expected, {group: override.value()}, overrides)
        return piece if same(expected, cfg) else None

    def _difference(self, group: str, before: Sequence[Any], after: Sequence[Any], cfg: DictConfig) -> Piece | None:
        if len(before) != len(after):
            return None
        places = [i for i, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
        if not places:
            return Piece()
        at = places[0]
        old, new = before[at], after[at]
        alike = all(getattr(old, name) == getattr(new, name) for name in ("parent", "package", "is_self", "primary", "override_key"))
        if len(places) > 1 or not alike or new.override_key != group or not new.package:
            return None
        # a config with a defaults list of its own may override other groups
        if self._loader.files.defaults_of(old.config_path) or self._loader.files.defaults_of(new.config_path):
            return None
        key = split_key(new.package)[0]
        node = children(cfg).get(key)
        return None if key == "hydra" or node is None else Piece(key, clone(node), at, new)


def leads_through_interpolation(cfg: DictConfig, key: str) -> bool:
    """Whether an override of the key writes to a node that an interpolation names."""
    nodes = list(along(cfg, key))
    inner = nodes[: len(split_key(key)) - 1]
    return any(node is None for node in nodes) or any(is_interpolated(node) for node in inner)


def _text(entry: Any) -> str:
    """What may be an interpolation in an entry of a defaults list."""
    return f"{getattr(entry, 'path', '')} {getattr(entry, 'value', '')}"
