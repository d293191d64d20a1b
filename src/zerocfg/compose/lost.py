"""Values of a project's files that zerocfg's own take the place of: _self_ before zerocfg in a defaults list (ZC176)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from zerocfg.compose.kinds import typed_keys
from zerocfg.compose.origins import Source
from zerocfg.confsource import conf_dir
from zerocfg.diagnostics import Diagnostic, Severity

_SCHEMA = "zerocfg_schema"
_SHOWN = 3


@lru_cache(maxsize=64)
def lost_values(sources: tuple[Source, ...]) -> tuple[Diagnostic, ...]:
    """One warning a file. sources: in merge order."""
    held: dict[str, tuple[Source, int]] = {}
    lost: dict[str, tuple[Source, int]] = {}
    for source in sources:
        if _is_ours(source):
            lost |= {path: held.pop(path) for path in _paths(source) if path in held}
        elif source.part.file is not None:
            written = {source.full_path(mark.path): (source, mark.line) for mark in source.marks.keys if mark.kind != "map"}
            held |= written
            lost = {path: where for path, where in lost.items() if path not in written}
    by_file: dict[Source, list[tuple[int, str]]] = {}
    for path, (source, line) in lost.items():
        by_file.setdefault(source, []).append((line, path))
    return tuple(_told(source, sorted(found)) for source, found in by_file.items())


def _is_ours(source: Source) -> bool:
    file = source.part.file
    return source.part.config_path == _SCHEMA if file is None else Path(os.path.abspath(file)).is_relative_to(os.path.abspath(conf_dir()))


def _paths(source: Source) -> Iterator[str]:
    if source.part.config_path == _SCHEMA:
        yield from typed_keys()
    yield from (source.full_path(mark.path) for mark in source.marks.keys if mark.kind != "map")


def _told(source: Source, found: list[tuple[int, str]]) -> Diagnostic:
    paths = [path for _, path in found]
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return Diagnostic(
        code="ZC176",
        severity=Severity.WARNING,
        path=paths[0],
        message=f"{', '.join(paths[:_SHOWN])}{more} of {source.label} has no effect: zerocfg's own values are merged over it",
        detail=("the defaults list is merged in its order; _self_ is the file that has the list",),
        hint="in the defaults list: zerocfg first, _self_ last",
        decided_by=source.at(found[0][0]),
    )
