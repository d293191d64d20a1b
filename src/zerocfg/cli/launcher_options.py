"""hydra.launcher as the options of one of zerocfg's launchers, for commands that Hydra does not instantiate it for."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from zerocfg.compose import Composed
from zerocfg.compose.nearest import nearest
from zerocfg.diagnostics import Diagnostic
from zerocfg.launch.options import LocalOptions
from zerocfg.launch.slurm_options import SlurmOptions

GROUP, PATH = "hydra/launcher", "hydra.launcher"
KINDS: dict[str, type[LocalOptions | SlurmOptions]] = {"ZerocfgLocalLauncher": LocalOptions, "ZerocfgSlurmLauncher": SlurmOptions}


def launcher_options(composed: Composed, code: str) -> LocalOptions | SlurmOptions | Diagnostic:
    """A Diagnostic of that code where another launcher was chosen, a field does not exist or cannot be resolved."""
    node = composed.cfg.hydra.launcher
    if not isinstance(node, DictConfig):
        hint = f"{GROUP}={node}: a config group's name has a slash"
        return Diagnostic(code=code, path=GROUP, message=f"{PATH}={node} sets the launcher's options to one word", hint=hint)
    target = str(OmegaConf.select(node, "_target_")).rpartition(".")[2]
    kind = KINDS.get(target)
    if kind is None:
        hint = "--target local, or --target slurm"
        return Diagnostic(code=code, path=GROUP, message=f"{GROUP} is none of zerocfg's launchers: {target}", hint=hint)
    try:
        plain = cast("dict[str, Any]", OmegaConf.to_container(node, resolve=True))
    except OmegaConfBaseException as problem:
        first = str(problem).partition("\n")[0]
        return Diagnostic(code=code, path=PATH, message=f"{PATH} cannot be resolved: {first}", hint=f"{PATH}.FIELD=VALUE")
    given = {name: value for name, value in plain.items() if not name.startswith("_")}
    known = [field.name for field in fields(kind)]
    for name in given:
        if name not in known:
            near = nearest(name, known, n=1)
            return Diagnostic(
                code=code,
                path=f"{PATH}.{name}",
                message=f"{PATH}.{name}: {GROUP}=zerocfg_{'slurm' if kind is SlurmOptions else 'local'} has no such field",
                detail=() if near else (f"its fields: {', '.join(known)}",),
                hint=f"{PATH}.{near[0]}=VALUE" if near else f"without {PATH}.{name}",
            )
    return kind(**given)
