"""Where the config groups lie: in the wheel as zerocfg/conf, in a source checkout as conf/ at its top."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

PROVIDER = "zerocfg"
"""Name of our entry in Hydra's search path, as `--info searchpath` shows it."""

_PACKAGE = Path(__file__).resolve().parent


@lru_cache(maxsize=1)
def conf_dir() -> Path:
    """Folder of zerocfg.yaml and the groups. Raises FileNotFoundError for a broken installation."""
    candidates = (_PACKAGE / "conf", _PACKAGE.parent.parent / "conf")
    for folder in candidates:
        if (folder / "zerocfg.yaml").is_file():
            return folder
    raise FileNotFoundError("zerocfg's config groups are missing; looked in " + " and ".join(str(c) for c in candidates))


def conf_source() -> str:
    """The same as an entry of Hydra's search path: pkg://zerocfg.conf from a wheel, file://... from a checkout."""
    folder = conf_dir()
    return "pkg://zerocfg.conf" if folder.parent == _PACKAGE else f"file://{folder}"
