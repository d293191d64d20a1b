"""Config files read with libyaml: what OmegaConf.load gives, in a fifth of the time.

OmegaConf parses with PyYAML's loader in Python, a tenth of a composition. The tables of its loader (1e5 is a number, a timestamp is
text, a key may come once) work on libyaml's parser as well. Whatever that refuses is read again by OmegaConf, whose word counts.
"""

from __future__ import annotations

import os
from typing import Any

import yaml
from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra._internal.core_plugins.importlib_resources_config_source import ImportlibResourcesConfigSource
from hydra.plugins.config_source import ConfigLoadError, ConfigResult, ConfigSource
from omegaconf import OmegaConf
from omegaconf._utils import get_yaml_loader

_TEXT = yaml.resolver.BaseResolver.DEFAULT_SCALAR_TAG
_Parser: Any = getattr(yaml, "CSafeLoader", None)
_HEADER = 512
"""Characters in which Hydra looks for `# @package`."""


def _loader_class() -> Any:
    if _Parser is None:
        return None
    theirs = get_yaml_loader()

    class Loader(_Parser):  # type: ignore[misc]
        yaml_implicit_resolvers = theirs.yaml_implicit_resolvers
        yaml_constructors = theirs.yaml_constructors

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            keys = [key.value for key, _ in node.value if key.tag == _TEXT]
            if len(keys) != len(set(keys)):
                raise yaml.constructor.ConstructorError("while constructing a mapping", node.start_mark, "found duplicate key", None)
            return super().construct_mapping(node, deep=deep)

    return Loader


_LOADER = _loader_class()


def load_text(text: str) -> Any:
    """A dict, or None where OmegaConf has to decide: no mapping, a mistake, no libyaml."""
    if _LOADER is None:
        return None
    try:
        found = yaml.load(text, Loader=_LOADER)
    except yaml.YAMLError:
        return None
    return found if isinstance(found, dict) else None


class FastFileSource(FileConfigSource):  # type: ignore[misc]
    """Hydra's file:// source with the faster parser."""

    def load_config(self, config_path: str) -> Any:
        path = os.path.realpath(os.path.join(self.path, self._normalize_file_name(config_path)))
        if not os.path.exists(path):
            raise ConfigLoadError(f"Config not found : {path}")
        with open(path, encoding="utf-8") as stream:
            text = stream.read()
        loaded = load_text(text)
        return super().load_config(config_path) if loaded is None else result(self, loaded, text)


class FastPackageSource(ImportlibResourcesConfigSource):  # type: ignore[misc]
    """Hydra's pkg:// source with the faster parser; its own configs lie there."""

    def _read_config(self, res: Any) -> Any:
        text = res.read_text(encoding="utf-8")
        loaded = load_text(text)
        return super()._read_config(res) if loaded is None else result(self, loaded, text)


def result(source: Any, loaded: dict[Any, Any], text: str) -> Any:
    """What Hydra's sources return for a file."""
    return ConfigResult(
        config=OmegaConf.create(loaded),
        path=f"{source.scheme()}://{source.path}",
        provider=source.provider,
        header=ConfigSource._get_header_dict(text[:_HEADER]),
    )


_FASTER: dict[type, type] = {FileConfigSource: FastFileSource, ImportlibResourcesConfigSource: FastPackageSource}


def faster(source: Any) -> Any:
    """The same source, faster where it is one of Hydra's own that read files."""
    cls = _FASTER.get(type(source))
    return source if cls is None else cls(source.provider, source.full_path())
