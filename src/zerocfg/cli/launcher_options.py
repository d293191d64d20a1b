"""hydra.launcher as the options of one of zerocfg's launchers, for commands that Hydra does not instantiate it for."""

from __future__ import annotations

from typing import Any, cast

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from zerocfg.compose import Composed
from zerocfg.compose.hydra_api import as_first_job, hydra_globals
from zerocfg.diagnostics import Diagnostic
from zerocfg.launch.options import LocalOptions
from zerocfg.launch.read_options import GROUP, PATH, read_options
from zerocfg.launch.slurm_options import SlurmOptions

KINDS: dict[str, type[LocalOptions | SlurmOptions]] = {"ZerocfgLocalLauncher": LocalOptions, "ZerocfgSlurmLauncher": SlurmOptions}


def launcher_options(composed: Composed, code: str) -> tuple[LocalOptions | SlurmOptions | None, list[Diagnostic]]:
    """The options and what is wrong with them. None where they cannot be read, or where another launcher was chosen: a Diagnostic of
    that code."""
    node = composed.cfg.hydra.launcher
    if not isinstance(node, DictConfig):
        hint = f"{GROUP}={node}: a config group's name has a slash"
        return None, [Diagnostic(code=code, path=GROUP, message=f"{PATH}={node} sets the launcher's options to one word", hint=hint)]
    target = _target(node)
    kind = KINDS.get(target)
    if kind is None:
        hint = "--target local, or --target slurm"
        return None, [Diagnostic(code=code, path=GROUP, message=f"{GROUP} is none of zerocfg's launchers: {target}", hint=hint)]
    return _options_of(composed, kind, start=True)


def check_options(composed: Composed) -> list[Diagnostic]:
    """What is wrong with the options of the launcher that was chosen, where it is one of zerocfg's."""
    node = composed.cfg.hydra.launcher if len(composed.cfg) else None
    kind = KINDS.get(_target(node)) if isinstance(node, DictConfig) else None
    return _options_of(composed, kind, start=False)[1] if kind is not None else []


def _target(launcher: DictConfig) -> str:
    """Name of its class."""
    return str(OmegaConf.select(launcher, "_target_")).rpartition(".")[2]


def _resolved(cfg: DictConfig) -> dict[str, Any]:
    try:
        return cast("dict[str, Any]", OmegaConf.to_container(cfg.hydra.launcher, resolve=True))
    except OmegaConfBaseException:
        with hydra_globals():  # perhaps only for want of ${hydra:...}
            as_first_job(cfg)
            return cast("dict[str, Any]", OmegaConf.to_container(cfg.hydra.launcher, resolve=True))


def _options_of(
    composed: Composed, kind: type[LocalOptions | SlurmOptions], *, start: bool
) -> tuple[LocalOptions | SlurmOptions | None, list[Diagnostic]]:
    try:
        plain = _resolved(composed.cfg)
    except OmegaConfBaseException as problem:
        first = str(problem).partition("\n")[0]
        return None, [Diagnostic(code="ZC715", path=PATH, message=f"{PATH} cannot be resolved: {first}", hint=f"{PATH}.FIELD=VALUE")]
    return read_options(kind, plain, composed.cfg, start=start)
