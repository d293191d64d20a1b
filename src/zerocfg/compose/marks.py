"""Where each key of a YAML file stands, and how its scalar was written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import yaml

# libyaml's loader where PyYAML was built with it: ten times faster, the same nodes
_Loader: type = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MERGE = "tag:yaml.org,2002:merge"
_TEXT = "tag:yaml.org,2002:str"
_RESOLVER = yaml.resolver.Resolver()


@dataclass(frozen=True, slots=True)
class Mark:
    """One key, or one item of a list."""

    path: str
    """Dotted below the file's root: params.betas[0]."""
    line: int
    """Of the key, from 1."""
    kind: str
    """scalar, list or map."""
    text: str = ""
    """A scalar as written, without quotes."""
    plain: bool = False
    """An unquoted scalar: YAML decides its type."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One entry of a defaults list."""

    group: str
    """As Hydra names it: without `optional`, `override` and a leading slash, with @package."""
    option: str
    override: bool
    line: int


@dataclass(frozen=True, slots=True)
class Marks:
    keys: tuple[Mark, ...] = ()
    defaults: tuple[Choice, ...] = ()


@lru_cache(maxsize=256)
def _read(path: str, mtime_ns: int, size: int) -> Marks:
    return marks_of(Path(path).read_text(encoding="utf-8"))


def read_marks(path: Path) -> Marks:
    """Marks of a file that Hydra has loaded. Empty where it cannot be read again."""
    try:
        stat = path.stat()
        return _read(str(path), stat.st_mtime_ns, stat.st_size)
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return Marks()


def marks_of(text: str) -> Marks:
    """Marks of YAML text. Raises yaml.YAMLError."""
    root = yaml.compose(text, Loader=_Loader)
    if not isinstance(root, yaml.MappingNode):
        return Marks()
    keys: list[Mark] = []
    defaults: tuple[Choice, ...] = ()
    for key, value in root.value:
        if key.value == "defaults" and isinstance(value, yaml.SequenceNode):
            defaults = tuple(_choices(value))
    for mark in _walk("", root):
        if mark.path != "defaults" and not mark.path.startswith(("defaults.", "defaults[")):
            keys.append(mark)
    return Marks(tuple(keys), defaults)


def _walk(prefix: str, node: yaml.MappingNode) -> Iterator[Mark]:
    for key, value in node.value:
        if key.tag == _MERGE:
            for merged in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                if isinstance(merged, yaml.MappingNode):
                    yield from _walk(prefix, merged)
            continue
        name = str(key.value)
        yield from _node(f"{prefix}.{name}" if prefix else name, key.start_mark.line + 1, value)


def _node(path: str, line: int, node: yaml.Node) -> Iterator[Mark]:
    if isinstance(node, yaml.MappingNode):
        yield Mark(path, line, "map")
        yield from _walk(path, node)
    elif isinstance(node, yaml.SequenceNode):
        yield Mark(path, line, "list")
        for i, item in enumerate(node.value):
            yield from _node(f"{path}[{i}]", item.start_mark.line + 1, item)
    else:
        yield Mark(path, line, "scalar", str(node.value), plain=_is_plain(node))


def _is_plain(node: yaml.Node) -> bool:
    """Neither quoted nor called text by the file (!!str 012): such a value is what it looks."""
    if not isinstance(node, yaml.ScalarNode) or node.style:
        return False
    implied: str = _RESOLVER.resolve(yaml.ScalarNode, node.value, (True, False))  # type: ignore[no-untyped-call]
    return not (node.tag == _TEXT and implied != _TEXT)


def _choices(node: yaml.SequenceNode) -> Iterator[Choice]:
    for item in node.value:
        line = item.start_mark.line + 1
        if isinstance(item, yaml.MappingNode) and len(item.value) == 1:
            key, value = item.value[0]
            words = str(key.value).split()
            if words:
                options = [str(v.value) for v in value.value] if isinstance(value, yaml.SequenceNode) else [str(value.value)]
                yield Choice(words[-1].lstrip("/"), ", ".join(options), "override" in words[:-1], line)
