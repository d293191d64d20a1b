"""A config as YAML, without the values of secrets."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf._utils import get_omega_conf_dumper

from zerocfg.emit import replace_text
from zerocfg.hidden import ENVIRONMENTS, hide_override, hide_values, is_secret
from zerocfg.nodes import written


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
    # as given: an override may name a key that only a job has, ${hydra.job.num}
    given = [*written(config.hydra.overrides.task), *written(config.hydra.overrides.hydra)]
    if path.is_file() and (secrets or any(hide_override(word) != word for word in given)):
        replace_text(path, hidden_yaml(written(OmegaConf.load(path)), secrets, given=True))


def hidden_yaml(content: Any, secrets: dict[str, str], *, given: bool = False) -> str:
    """Interpolations as written; each secret of an environment as ${oc.env:NAME}, which a later run can read; in overrides and
    names made of them, left out. content: a config as plain data (`nodes.written`). given: overrides may hold some that are not in
    secrets."""
    return as_yaml(_hidden(content, (), secrets) if secrets or given else content)


def as_yaml(content: Any) -> str:
    """What OmegaConf.to_yaml writes of plain data, by libyaml's emitter where PyYAML was built with it: 1 ms in place of 6."""
    return yaml.dump(content, default_flow_style=False, allow_unicode=True, sort_keys=False, Dumper=_dumper())


@cache
def _dumper() -> Any:
    theirs: Any = get_omega_conf_dumper()
    fast = getattr(yaml, "CDumper", None)
    if fast is None:
        return theirs
    ours: Any = type("Dumper", (fast,), {})
    # text that reads as a number or a truth value gets quotes
    ours.add_representer(str, theirs.str_representer)
    return ours


def _hidden(node: Any, path: tuple[str, ...], secrets: dict[str, str]) -> Any:
    if isinstance(node, dict):
        return {key: _hidden(value, (*path, str(key)), secrets) for key, value in node.items()}
    if isinstance(node, list):
        return [_hidden(value, path, secrets) for value in node]
    *above, name = path or ("",)
    if ".".join(above) in ENVIRONMENTS and name in secrets and str(node) == secrets[name]:
        return f"${{oc.env:{name}}}"
    return hide_values(hide_override(node), secrets.values()) if isinstance(node, str) else node
