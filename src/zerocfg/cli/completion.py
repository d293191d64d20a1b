"""Shell completion of overrides: `group=` lists its options, the start of a word lists groups and keys."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path


def complete_override(incomplete: str) -> list[str]:
    """Reads folder names only; no composition."""
    return candidates(_before(), incomplete)


def _before() -> list[str]:
    """The words of the line before the one that is completed, where bash asks: typer does not hand them on."""
    words, place = os.environ.get("COMP_WORDS", "").split(), os.environ.get("COMP_CWORD", "")
    if not place.isdigit():
        return []
    # the cursor right after =: typer takes that word for an empty one
    return words[: int(place) + (words[int(place) : int(place) + 1] == ["="])]


def candidates(before: Sequence[str], incomplete: str) -> list[str]:
    """before: the words of the line so far. bash breaks words at =, and completes only what stands after it."""
    if len(before) > 1 and before[-1] == "=":
        return sorted({name for name in _options(before[-2]) if name.startswith(incomplete)})
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
