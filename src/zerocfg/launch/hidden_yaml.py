"""A config as YAML, without the values of secrets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from zerocfg.emit import replace_text
from zerocfg.hidden import ENVIRONMENTS, hide_override, hide_values, is_secret


def secret_values(config: DictConfig) -> dict[str, str]:
    """Name -> value of what looks like a secret in the config's environments; interpolations are no values."""
    found: dict[str, str] = {}
    for base in ENVIRONMENTS:
        node = OmegaConf.select(config, base, throw_on_missing=False)
        if isinstance(node, DictConfig):
            for name in map(str, node):
                leaf: Any = node._get_node(name)
                if is_secret(name) and leaf is not None and not leaf._is_interpolation() and leaf._value() is not None:
                    found[name] = str(leaf._value())
    return found


def hide_multirun(config: DictConfig) -> None:
    """Hydra's sweeper has written multirun.yaml, the command line as it came: write it again without the values of secrets."""
    path = Path(str(config.hydra.sweep.dir)) / "multirun.yaml"
    secrets = secret_values(config)
    given = [*config.hydra.overrides.task, *config.hydra.overrides.hydra]
    if path.is_file() and (secrets or any(hide_override(word) != word for word in given)):
        replace_text(path, hidden_yaml(OmegaConf.load(path), secrets, given=True))


def hidden_yaml(node: Any, secrets: dict[str, str], *, given: bool = False) -> str:
    """Interpolations as written; each secret of an environment as ${oc.env:NAME}, which a later run can read; in overrides and
    names made of them, left out. given: overrides may hold some that are not in secrets."""
    if not secrets and not given:
        return OmegaConf.to_yaml(node)
    plain = OmegaConf.to_container(node, resolve=False, enum_to_str=True)
    return OmegaConf.to_yaml(OmegaConf.create(_hidden(plain, (), secrets)))


def _hidden(node: Any, path: tuple[str, ...], secrets: dict[str, str]) -> Any:
    if isinstance(node, dict):
        return {key: _hidden(value, (*path, str(key)), secrets) for key, value in node.items()}
    if isinstance(node, list):
        return [_hidden(value, path, secrets) for value in node]
    *above, name = path or ("",)
    if ".".join(above) in ENVIRONMENTS and name in secrets and str(node) == secrets[name]:
        return f"${{oc.env:{name}}}"
    return hide_values(hide_override(node), secrets.values()) if isinstance(node, str) else node
