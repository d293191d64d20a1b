"""Makes zerocfg's config groups visible to every Hydra app in whose environment zerocfg is installed.

Hydra imports this at the start of every app: nothing heavy may be imported here.
"""

from __future__ import annotations

from pathlib import Path

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.plugins.search_path_plugin import SearchPathPlugin

from zerocfg.confsource import PROVIDER, conf_dir, conf_source
from zerocfg.schema import schema_node

ConfigStore.instance().store(name="zerocfg_schema", node=schema_node(), provider=PROVIDER)


class ZerocfgSearchPath(SearchPathPlugin):
    """Appended, so that an app's own option of the same group and name wins."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        if not any(_is_ours(entry.path) for entry in search_path.get_path()):
            search_path.append(provider=PROVIDER, path=conf_source())


def _is_ours(path: str) -> bool:
    """The app's primary config folder may be our conf/ itself (train.py of a checkout); Hydra writes it with or without file://."""
    if path == conf_source():
        return True
    return "://" not in (bare := path.removeprefix("file://")) and bare != "" and Path(bare).resolve() == conf_dir()
