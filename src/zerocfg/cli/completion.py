"""Shell completion of overrides: `group=` lists its options, the start of a word lists groups and keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def complete_override(incomplete: str) -> list[str]:
    """Reads folder names only; no composition."""
    group, equals, start = incomplete.partition("=")
    if equals:
        return sorted({f"{group}={name}" for name in _options(group) if name.startswith(start)})
    from zerocfg.compose.kinds import typed_keys
    from zerocfg.schema import GROUPS

    names = [*(f"{name}=" for name in GROUPS), *(f"{path}=" for path in typed_keys() if "." in incomplete)]
    return [name for name in names if name.startswith(incomplete)]


def _options(group: str) -> Iterator[str]:
    from zerocfg.confsource import conf_dir

    bare = group.lstrip("+")
    if not all(part.isidentifier() for part in bare.split("/")):
        return
    for folder in (conf_dir(), Path("conf")):
        yield from (path.stem for path in (folder / bare).glob("*.yaml"))
