"""A config as YAML, without the values of secrets."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf

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


def hidden_yaml(node: Any, secrets: dict[str, str]) -> str:
    """Interpolations as written; each secret of an environment as ${oc.env:NAME}, which a later run can read; in overrides and
    names made of them, left out."""
    if not secrets:
        return OmegaConf.to_yaml(node)
    node = copy.deepcopy(node)
    OmegaConf.set_readonly(node, None)
    _hide(node, (), secrets)
    return OmegaConf.to_yaml(node)


def _hide(node: Any, path: tuple[str, ...], secrets: dict[str, str]) -> None:
    if not isinstance(node, (DictConfig, ListConfig)) or node._is_none() or node._is_missing() or node._is_interpolation():
        return
    keys: Iterable[Any] = list(node.keys()) if isinstance(node, DictConfig) else range(len(node))
    for key in keys:
        child: Any = node._get_node(key)
        if isinstance(child, (DictConfig, ListConfig)):
            child._metadata.flags = {**(child._metadata.flags or {}), "readonly": False}
            _hide(child, (*path, str(key)), secrets)
        elif child is not None and isinstance(text := child._value(), (str, int, float)) and not isinstance(text, bool):
            name = str(key)
            if ".".join(path) in ENVIRONMENTS and name in secrets and not child._is_interpolation():
                child._set_value(f"${{oc.env:{name}}}")
            elif isinstance(text, str) and (clean := hide_values(hide_override(text), secrets.values())) != text:
                child._set_value(clean)
