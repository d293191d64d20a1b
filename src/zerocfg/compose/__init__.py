"""Hydra composes; this says what came out, who wrote each value, and everything that is wrong with it.

IO: reads config files. Nothing here fails at the first problem.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf

from zerocfg.compose import hydra_api, origins, surprises
from zerocfg.compose.hydra_api import FAILURES, Loader
from zerocfg.compose.lost import lost_values
from zerocfg.compose.nearest import nearest
from zerocfg.compose.origins import Source, read_sources, trace_writing
from zerocfg.compose.plain import leave_open, to_plain, unresolved
from zerocfg.confsource import conf_dir
from zerocfg.diagnostics import Diagnostic, Severity
from zerocfg.provenance import Origins
from zerocfg.schema import GROUPS

__all__ = ["Composed", "compose", "compose_job", "from_hydra", "hydra_origins", "uses_groups"]

PRIMARY = "zerocfg"
"""Name of the packaged primary config."""
OWN = "conf"
"""Folder of a project's primary config, here: as `zerocfg init` writes it."""


@dataclass(frozen=True)
class Composed:
    cfg: DictConfig
    """As Hydra composed it, its hydra node included; empty when nothing could be composed."""
    container: dict[str, Any] = field(default_factory=dict)
    """Our groups and sections that the config has, as plain resolved containers."""
    origins: Origins = field(default_factory=Origins)
    diagnostics: list[Diagnostic] = field(default_factory=list)


def compose(overrides: Sequence[str], *, config_path: str | None = None, config_name: str | None = None) -> Composed:
    """Compose as an @hydra.main app would.

    config_path: folder of the primary config, relative to the current one (or pkg://module); None for `conf` here where that
    belongs to a project of zerocfg's, else for the packaged groups. config_name: without .yaml; None for `config`, else `zerocfg`,
    in the folder. A bad override is reported and left out.
    """
    if config_path is None and is_ours(Path(OWN, f"{(config_name or 'config').removesuffix('.yaml')}.yaml")):
        config_path = OWN
    problem, folder, name = _primary(config_path, config_name)
    if problem is not None:
        return Composed(OmegaConf.create(), diagnostics=[problem])
    with hydra_api.hydra_globals() as heard:
        composed = _compose(hydra_api.loader_for(folder), name, overrides, packaged_main=config_path is None)
    composed.diagnostics.extend(
        Diagnostic(code="ZC170", severity=Severity.WARNING, message=" ".join(text.split()), hint="mend it in the config or the override")
        for text in heard
    )
    if len(composed.cfg) and not uses_groups(composed.cfg):
        composed.diagnostics.append(_none_of_ours(name))
        composed.container.clear()
    return composed


def is_ours(file: Path) -> bool:
    """Whether a primary config begins with zerocfg's: its defaults list names it. Neither parsed nor composed: a mistake in it is told
    by what composes it."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return re.search(rf"^\s*-\s*[/'\"]*{PRIMARY}['\"]?\s*(#|$)|^defaults:\s*\[[^]]*\b{PRIMARY}\b", text, re.MULTILINE) is not None


def compose_job(app: DictConfig, overrides: Sequence[str]) -> Composed:
    """Compose one job of an already composed app (its hydra node tells where it came from), its problems collected.

    overrides: of the task; those of hydra.* are the app's own.
    """
    loader = hydra_api.loader_like(app)
    return _compose(loader, app.hydra.job.config_name, [*_as_written(app), *overrides], packaged_main=False)


def from_hydra(
    cfg: DictConfig, task_overrides: Sequence[str], *, parsed: Sequence[Any] | None = None, sources: Sequence[Source] | None = None
) -> Composed:
    """What a config that Hydra has composed (cfg.hydra included) asks for.

    task_overrides: those that made it. parsed, sources: Hydra's Override objects of all overrides (hydra.* too) and what was merged,
    in order, where the caller has kept them; without them Hydra's defaults list is made once more.
    """
    overrides = [*_as_written(cfg), *task_overrides]
    diagnostics = [found for text in overrides if (found := surprises.on_command_line(text)) is not None]
    if parsed is not None and sources is not None:
        return _finish(cfg, parsed, sources, diagnostics)
    recorded = hydra_api.record(cfg, overrides)
    return _finish(cfg, recorded.overrides, read_sources(recorded.parts, packaged_main=False), diagnostics)


def hydra_origins(cfg: DictConfig) -> Origins:
    """Who wrote each value of hydra.* of a config that Hydra has composed. Makes its defaults list once more: for what has gone wrong."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # told when it was composed
            recorded = hydra_api.record(cfg, _as_written(cfg))
    except FAILURES:
        return Origins()
    choices: dict[str, Any] = cast("dict[str, Any]", OmegaConf.to_container(cfg.hydra.runtime.choices, resolve=False))
    return origins.hydra_origins(recorded.parts, recorded.overrides, choices)


def _as_written(cfg: DictConfig) -> list[str]:
    """The overrides of hydra.*; an interpolation in one is not resolved with this config's values."""
    written: Any = OmegaConf.to_container(cfg.hydra.overrides.hydra)
    return [str(line) for line in written]


def uses_groups(cfg: DictConfig) -> bool:
    """Whether a config has any of zerocfg's groups: their nodes carry our types, an app's own `model` does not."""
    return any(
        cfg._get_node(name, validate_access=False) is not None and OmegaConf.get_type(cfg, name) is cls for name, cls in GROUPS.items()
    )


def _primary(config_path: str | None, config_name: str | None) -> tuple[Diagnostic | None, str, str]:
    """(ZC114, "", "") or (None, absolute folder, config name)."""
    if config_path is None:
        folder = conf_dir()
        name = config_name or PRIMARY
    elif "://" in config_path:
        return None, config_path, config_name or "config"
    else:
        folder = Path(os.path.abspath(config_path))
        if folder.suffix in (".yaml", ".yml") and not folder.is_dir():
            hint = f"--config-path {folder.parent} --config-name {folder.stem}"
            return _no_primary(f"--config-path {config_path} is a file, not a folder", (), hint), "", ""
        if not folder.is_dir():
            return _no_primary(f"--config-path {config_path}: there is no folder {folder}", (), "a folder with a config.yaml"), "", ""
        name = config_name or next((n for n in ("config", PRIMARY) if (folder / f"{n}.yaml").is_file()), "config")
    if not (folder / f"{name.removesuffix('.yaml')}.yaml").is_file() and not _elsewhere(name):
        there = sorted(p.stem for p in folder.glob("*.yaml"))
        near = nearest(name, there, n=1) or there[:1]
        hint = f"--config-name {near[0]}" if near else "zerocfg init writes a starter"
        listed = (f"configs there: {', '.join(there)}",) if there else ()
        return _no_primary(f"there is no {name}.yaml in {folder}", listed, hint), "", ""
    return None, str(folder), name


def _none_of_ours(name: str) -> Diagnostic:
    return Diagnostic(
        code="ZC174",
        message=f"{name} has none of zerocfg's groups",
        hint=f"`- {PRIMARY}` as the first entry of its defaults list",
    )


def _elsewhere(name: str) -> bool:
    """Whether the packaged folder, which is on every search path, has it."""
    return (conf_dir() / f"{name.removesuffix('.yaml')}.yaml").is_file()


def _no_primary(message: str, detail: tuple[str, ...], hint: str) -> Diagnostic:
    return Diagnostic(code="ZC114", message=message, detail=detail, hint=hint)


def _compose(loader: Loader, name: str | None, overrides: Sequence[str], *, packaged_main: bool) -> Composed:
    surprising = [(text, found) for text in overrides if (found := surprises.on_command_line(text)) is not None]
    diagnostics = [found for _, found in surprising]
    refused = {text for text, _ in surprising}
    kept = [text for text in overrides if text not in refused]
    try:
        cfg = loader.compose(name, kept)
    except FAILURES:
        from zerocfg.compose.diagnose import salvage  # only a failure pays for it

        result = salvage(loader, name, kept)
        diagnostics += result.diagnostics
        if result.cfg is None:
            return Composed(OmegaConf.create(), diagnostics=diagnostics)
        cfg, loader.recorded.overrides = result.cfg, result.overrides
    dotted = [o for o in loader.recorded.overrides if _is_dotted_group(o, loader)]
    if dotted:
        from zerocfg.compose.messages import dotted_group

        diagnostics += [dotted_group(override) for override in dotted]
    recorded = loader.recorded
    return _finish(cfg, recorded.overrides, read_sources(recorded.parts, packaged_main=packaged_main), diagnostics, recorded.bad)


def _is_dotted_group(override: Any, loader: Loader) -> bool:
    """hydra.launcher=x where hydra/launcher=x is meant: Hydra would put the text in place of the whole node."""
    key = str(override.key_or_group)
    if "." not in key or override.is_delete() or isinstance(override.value(), (dict, list)):
        return False
    return loader.is_group(key.replace(".", "/"))


def _finish(
    cfg: DictConfig,
    overrides: Sequence[Any],
    sources: Sequence[Source],
    diagnostics: list[Diagnostic],
    bad: Sequence[hydra_api.BadLeaf] = (),
) -> Composed:
    choices: dict[str, Any] = cast("dict[str, Any]", OmegaConf.to_container(cfg.hydra.runtime.choices, resolve=False))
    written = trace_writing(sources, overrides, choices)
    in_files = [found for source in sources for found in _surprises_of(source)]
    diagnostics += in_files
    if bad:
        from zerocfg.compose.messages import bad_leaf

        told = {d.path for d in in_files}
        diagnostics += [bad_leaf(leaf, _where(leaf, sources), cfg) for leaf in bad if leaf.path not in told]
    diagnostics += [*lost_values(tuple(sources)), *_losers(sources, overrides, choices)]
    container, failed = to_plain(cfg)
    if failed:
        # perhaps only for want of ${hydra:...}, which costs a copy of the hydra node
        hydra_api.as_first_job(cfg)
        container, failed = to_plain(cfg)
        diagnostics += unresolved(cfg, failed, written.origins())
    leave_open(container, written.left_open)
    if (container.get("model") or {}).get("hf_config"):
        from zerocfg.compose.model_file import apply_hf_config

        diagnostics += apply_hf_config(container, written)
    if (container.get("model") or {}).get("profile"):
        from zerocfg.compose.model_file import read_model_profile

        diagnostics += read_model_profile(container)
    return Composed(cfg, container, written.origins(), diagnostics)


@lru_cache(maxsize=256)
def _surprises_of(source: Source) -> tuple[Diagnostic, ...]:
    found = (
        surprises.in_file(source.full_path(mark.path), mark.text, source.at(mark.line))
        for mark in source.marks.keys
        if mark.kind == "scalar" and mark.plain
    )
    return tuple(d for d in found if d is not None)


def _where(leaf: hydra_api.BadLeaf, sources: Sequence[Source]) -> str:
    for source in sources:
        if source.part.config_path == leaf.part.config_path:
            for mark in source.marks.keys:
                if source.full_path(mark.path) == leaf.path:
                    return source.at(mark.line)
            return source.label
    return leaf.part.config_path


def _losers(sources: Sequence[Source], overrides: Sequence[Any], choices: Any) -> list[Diagnostic]:
    """ZC119: a defaults-list override of a config that the user chose, beaten by one that Hydra met before."""
    chosen = {f"{o.key_or_group}/{o.value()}" for o in overrides}
    said = {o.get_key_element().lstrip("+") for o in overrides}
    return [
        Diagnostic(
            code="ZC119",
            severity=Severity.WARNING,
            path=choice.group,
            message=f"override {choice.group}: {choice.option} has no effect: {choices[choice.group]} was chosen before",
            detail=("Hydra keeps the first override of a group that it meets: the primary config's before an appended config's",),
            hint=f"{choice.group}={choice.option} on the command line",
            decided_by=source.at(choice.line),
        )
        for source in sources
        if source.part.config_path in chosen
        for choice in source.marks.defaults
        if choice.override and choice.group in choices and choice.group not in said and choices[choice.group] != choice.option
    ]
