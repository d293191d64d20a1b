"""Values in the grammar of Hydra's overrides and in YAML, so that both read them back as they were."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

_KEY = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*")
"""A name that may stand in the dotted key of an override."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_./*-]*")
_WORD = re.compile(r"[A-Za-z_/][A-Za-z0-9_/.-]*")
"""A text that needs no quotes on a command line."""
_READ_AS_ELSE = {"null", "true", "false", "nan", "inf", "on", "off", "yes", "no", "y", "n"}
"""Words that are no text without quotes, here or in YAML; "None" looks like one."""
_BACKSLASHES_BEFORE_QUOTE = re.compile(r'(\\*)("|$)')
_INTERPOLATION = re.compile(r"(\\*)\$\{")


def override(path: str, value: Any) -> str:
    """KEY=VALUE."""
    return f"{path}={hydra_text(value)}"


def pasted(path: str, value: Any) -> str:
    """KEY=VALUE, quoted for the shell, too."""
    return shlex.quote(override(path, value))


def kept_leaves(kept: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Dotted path under `deepspeed` and value; a mapping with names that no dotted key can hold is one value."""
    for name, value in kept.items():
        yield from _leaves(f"deepspeed.{name}", value)


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value and all(_KEY.fullmatch(key) for key in value):
        for key, item in value.items():
            yield from _leaves(f"{path}.{key}", item)
    else:
        yield path, value


def hydra_text(value: Any) -> str:
    """A value as Hydra's override grammar reads it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{hydra_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(hydra_text(item) for item in value) + "]"
    text = str(value)
    if _WORD.fullmatch(text) and not _is_a_value(text):
        return text
    # backslashes count only before a quote and at the end (hydra/core/override_parser/types.py)
    quoted = _BACKSLASHES_BEFORE_QUOTE.sub(lambda m: m[1] * 2 + ('\\"' if m[2] else ""), literal(text))
    return f'"{quoted}"'


def literal(text: str) -> str:
    """`text` so that OmegaConf takes ${ for itself and not for an interpolation."""
    return _INTERPOLATION.sub(lambda m: m[1] * 2 + r"\${", text)


def sayable(value: Any) -> bool:
    """Whether every name in `value` may stand in an override: Hydra takes no quotes there, and reads some words as values."""
    if isinstance(value, Mapping):
        return all(is_name(str(name)) and sayable(item) for name, item in value.items())
    return all(sayable(item) for item in value) if isinstance(value, (list, tuple)) else True


def is_name(text: str) -> bool:
    return bool(_NAME.fullmatch(text)) and not _is_a_value(text)


def _is_a_value(text: str) -> bool:
    return text.lower() in _READ_AS_ELSE or text == "None"


class _Dumper(yaml.SafeDumper):
    """Texts always in quotes: what is plain text to PyYAML may be a number to OmegaConf (1e5)."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    plain = is_name(value)
    return dumper.represent_scalar("tag:yaml.org,2002:str", value if plain else literal(value), style=None if plain else '"')


def _mapping(dumper: yaml.SafeDumper, value: Mapping[str, Any]) -> yaml.MappingNode:
    return dumper.represent_mapping("tag:yaml.org,2002:map", value.items(), flow_style=not value)


def _list(dumper: yaml.SafeDumper, value: list[Any]) -> yaml.SequenceNode:
    return dumper.represent_sequence("tag:yaml.org,2002:seq", value, flow_style=True)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(dict, _mapping)
_Dumper.add_representer(list, _list)


def yaml_text(node: Mapping[str, Any]) -> str:
    """A mapping as block YAML that OmegaConf reads back as it is."""
    text: str = yaml.dump(node, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1000)
    return text
