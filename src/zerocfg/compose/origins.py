"""Config path -> who wrote it: file and line, command line, or the schema.

Follows Hydra's merge order: the later part wins, a list or a scalar replaces what was below its path, a mapping only adds.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from zerocfg.compose.hydra_api import Part
from zerocfg.compose.kinds import typed_keys
from zerocfg.compose.marks import Choice, Marks, read_marks
from zerocfg.confsource import conf_dir
from zerocfg.hidden import hide_override
from zerocfg.provenance import Origin, Origins

COMMAND_LINE = 1_000_000
"""Order of the command line: after every file."""

SCHEMA_DEFAULT = "schema default"
PACKAGED = "zerocfg"
"""Short form of the folder of zerocfg's own groups: zerocfg/parallelism/zero3.yaml:3."""


@dataclass
class Written:
    """Who wrote each path, with the order of writing (a part's place in the merge order)."""

    by_path: dict[str, tuple[int, str]] = field(default_factory=dict)
    left_open: dict[str, None] = field(default_factory=dict)
    """Paths whose last writer wrote ???. OmegaConf keeps an earlier value there, a schema default too, as if nothing was written."""

    def put(self, path: str, order: int, source: str, *, replaces: bool, is_open: bool = False) -> None:
        self.left_open.pop(path, None)
        if is_open:
            self.left_open[path] = None
        if replaces:
            for below in [p for p in self.by_path if p.startswith((f"{path}.", f"{path}["))]:
                del self.by_path[below]
        self.by_path[path] = (order, source)

    def drop(self, path: str) -> None:
        self.left_open.pop(path, None)
        for p in [p for p in self.by_path if p == path or p.startswith((f"{path}.", f"{path}["))]:
            del self.by_path[p]

    def copy(self) -> Written:
        return Written(dict(self.by_path), dict(self.left_open))

    def order(self, path: str) -> int:
        return self.by_path.get(path, (-1, ""))[0]

    def origins(self) -> Origins:
        known = {path: Origin(source) for path, (_, source) in self.by_path.items()}
        for path in typed_keys():
            known.setdefault(path, Origin(SCHEMA_DEFAULT))
        return Origins(known)


def short(file: Path, *, packaged_main: bool = True, provider: str = "") -> str:
    """How a report names a file: our own as zerocfg/..., below the current folder as a relative path, else in full.

    packaged_main: our folder is the primary config folder only because the user named none; an app whose own primary folder it
    is (train.py of a checkout) gets real paths.
    """
    absolute = Path(os.path.abspath(file))
    if packaged_main or provider != "main":
        for base in (conf_dir(), Path(os.path.abspath(conf_dir()))):
            if absolute.is_relative_to(base):
                return f"{PACKAGED}/{absolute.relative_to(base).as_posix()}"
    cwd = Path.cwd()
    return absolute.relative_to(cwd).as_posix() if absolute.is_relative_to(cwd) else str(absolute)


@dataclass(frozen=True, eq=False)
class Source:
    """A part with its file's marks and its name in reports."""

    part: Part
    label: str
    marks: Marks

    def at(self, line: int) -> str:
        return f"{self.label}:{line}"

    def full_path(self, path: str) -> str:
        return f"{self.part.package}.{path}" if self.part.package else path


def read_sources(parts: Iterable[Part], *, packaged_main: bool) -> list[Source]:
    """Parts that say something about an app's config; what is for Hydra's own node alone is left out."""
    found = []
    for part in parts:
        if _is_hydras(part):
            continue
        file = part.file
        if file is None:
            found.append(Source(part, f"structured config {part.config_path}", Marks()))
        else:
            found.append(Source(part, short(file, packaged_main=packaged_main, provider=part.source.provider), read_marks(file)))
    return found


def _is_hydras(part: Part) -> bool:
    return part.package.split(".")[0] == "hydra" or part.config_path.startswith("hydra/")


def hydra_origins(parts: Iterable[Part], overrides: Sequence[Any], choices: Mapping[str, Any]) -> Origins:
    """Who wrote each value of hydra.*, and chose each group below hydra/, where that was a file or the command line."""
    sources = [Source(part, short(part.file), read_marks(part.file)) for part in parts if part.file is not None]
    written = trace_writing(sources, overrides, choices)
    return Origins({path: Origin(source) for path, (_, source) in written.by_path.items() if path.startswith("hydra")})


def trace_writing(sources: Sequence[Source], overrides: Sequence[Any], choices: Mapping[str, Any]) -> Written:
    """sources: in merge order. overrides: parsed, those that Hydra accepted. choices: hydra.runtime.choices."""
    written = _files_written(tuple(sources)).copy()
    chosen = {name.partition("@")[0]: _choice_origin(name, option, sources, overrides) for name, option in choices.items()}
    for group, where in chosen.items():
        if where and group not in written.by_path:
            written.put(group, -1, where, replaces=False)
    for override in overrides:
        _write_override(written, override, choices)
    return written


@lru_cache(maxsize=64)
def _files_written(sources: tuple[Source, ...]) -> Written:
    """The same for all jobs of a sweep that merge the same files."""
    written = Written()
    for order, source in enumerate(sources):
        if source.part.file is None:
            for path in _structured_leaves(source):
                written.drop(path)
                if source.part.config_path != "zerocfg_schema":
                    written.put(path, order, source.label, replaces=False)
            continue
        for mark in source.marks.keys:
            if mark.kind != "map":
                is_open = mark.plain and mark.text == "???"
                written.put(source.full_path(mark.path), order, source.at(mark.line), replaces="[" not in mark.path, is_open=is_open)
    return written


def _structured_leaves(source: Source) -> Iterator[str]:
    if source.part.config_path == "zerocfg_schema":
        yield from typed_keys()
    elif source.part.source is not None:
        from omegaconf import OmegaConf

        config = source.part.source.load_config(source.part.config_path).config
        for path in _paths("", OmegaConf.to_container(config, resolve=False)):
            yield source.full_path(path)


def _paths(prefix: str, node: Any) -> Iterator[str]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield from _paths(f"{prefix}.{key}" if prefix else str(key), value)
    elif prefix:
        yield prefix


def _choice_origin(name: str, option: Any, sources: Sequence[Source], overrides: Sequence[Any]) -> str:
    for override in reversed(overrides):
        if override.get_key_element().lstrip("+") == name:
            return command_line(override)
    matching: list[tuple[Source, Choice]] = [
        (source, choice) for source in sources for choice in source.marks.defaults if choice.group == name and choice.option == str(option)
    ]
    for source, choice in sorted(matching, key=lambda pair: not pair[1].override):
        return source.at(choice.line)
    return ""


def _write_override(written: Written, override: Any, choices: Mapping[str, Any]) -> None:
    key = str(override.key_or_group)
    if override.is_delete():
        written.drop(key)
        return
    value = override.value()
    if isinstance(value, dict):
        for path in _paths(key, value):
            written.put(path, COMMAND_LINE, command_line(override), replaces=True)
    elif override.get_key_element().lstrip("+") not in choices:
        written.put(key, COMMAND_LINE, command_line(override), replaces=True)


def command_line(override: Any) -> str:
    return f"command line: {shown(str(override.input_line))}"


def shown(text: str) -> str:
    """Text of the user on one line: as written, or with escapes where it has line breaks or control characters. Secrets are left out."""
    text = hide_override(text)
    return text if text.isprintable() else repr(text)
