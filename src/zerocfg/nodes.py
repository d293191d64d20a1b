"""OmegaConf nodes as a tree of data: copied, compared and read without OmegaConf's per-access checks.

A copy of a composed config through copy.deepcopy takes 5.5 ms, through pickle 0.8 ms, through `clone` 0.35 ms (390 nodes).
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterator
from enum import Enum
from typing import Any

from omegaconf import DictConfig, ListConfig
from omegaconf._utils import split_key
from omegaconf.base import Node

_TYPES = ("ref_type", "object_type", "optional", "key", "flags", "flags_root", "key_type", "element_type")
"""What a node's metadata says, the resolver cache aside."""

NOT_PLAIN = object()
"""`plain` met an interpolation."""


def clone(node: Any, parent: Any = None) -> Any:
    """A deep copy that shares nothing mutable with `node`. parent: of the copy."""
    new = object.__new__(type(node))
    state = new.__dict__
    state.update(node.__dict__)
    meta = state["_metadata"]
    fresh = object.__new__(type(meta))
    told = fresh.__dict__
    told.update(meta.__dict__)
    told["flags"] = dict(told["flags"])
    cache = told["resolver_cache"]
    told["resolver_cache"] = copy.deepcopy(cache) if cache else defaultdict(dict)
    state["_metadata"] = fresh
    state["_parent"] = parent
    state["_flags_cache"] = None
    content = state.get("_content")
    if isinstance(content, dict):
        state["_content"] = {key: clone(child, new) for key, child in content.items()}
    elif isinstance(content, list):
        state["_content"] = [clone(child, new) for child in content]
    elif isinstance(content, Node):
        state["_content"] = clone(content, new)
    return new


def shell(node: Any) -> Any:
    """A copy of a mapping without its children."""
    content = node.__dict__["_content"]
    node.__dict__["_content"] = {}
    try:
        return clone(node)
    finally:
        node.__dict__["_content"] = content


def masked_copy(cfg: DictConfig, *keys: str) -> DictConfig:
    """What OmegaConf.masked_copy gives: a config with copies of these top-level keys alone. The hydra node: 0.2 ms, there 3 ms."""
    root: DictConfig = DictConfig({})
    content = root.__dict__["_content"]
    for key, node in children(cfg).items():
        if key in keys:
            content[key] = clone(node, root)
    return root


def without(cfg: DictConfig, key: str) -> DictConfig:
    """A deep copy that lacks one top-level key."""
    root: DictConfig = shell(cfg)
    content = root.__dict__["_content"]
    for name, node in children(cfg).items():
        if name != key:
            content[name] = clone(node, root)
    return root


def children(node: Any) -> dict[Any, Any]:
    """Child nodes of a mapping by key, in order, or of a list by index; empty for the rest."""
    content = node.__dict__.get("_content")
    if isinstance(content, dict):
        return content
    return dict(enumerate(content)) if isinstance(content, list) else {}


def value_of(node: Any) -> Any:
    """What a node without children holds: a value, None, ??? or an interpolation."""
    state = node.__dict__
    content = state["_val"] if "_val" in state else state["_content"]
    return value_of(content) if isinstance(content, Node) else content


def is_interpolated(node: Any) -> bool:
    value = value_of(node)
    return isinstance(value, str) and "${" in value


def holds_interpolation(node: Any) -> bool:
    below = children(node)
    return any(map(holds_interpolation, below.values())) if below else is_interpolated(node)


def leaves(node: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """(path, node) of what has no children; keys as text."""
    below = children(node)
    for key, child in below.items():
        yield from leaves(child, (*path, str(key)))
    if not below:
        yield path, node


def plain(node: Any) -> Any:
    """What OmegaConf.to_container gives for a tree without interpolations; NOT_PLAIN for one with."""
    content = node.__dict__.get("_content")
    if isinstance(content, dict):
        mapping = {}
        for key, child in content.items():
            mapping[key] = value = plain(child)
            if value is NOT_PLAIN:
                return NOT_PLAIN
        return mapping
    if isinstance(content, list):
        items = [plain(child) for child in content]
        return NOT_PLAIN if any(item is NOT_PLAIN for item in items) else items
    value = value_of(node)
    return NOT_PLAIN if isinstance(value, str) and "${" in value else value


def written(node: Any) -> Any:
    """What OmegaConf.to_container(node, resolve=False, enum_to_str=True) gives: interpolations as they stand."""
    content = node.__dict__.get("_content")
    if isinstance(content, dict):
        return {key.name if isinstance(key, Enum) else key: written(child) for key, child in content.items()}
    if isinstance(content, list):
        return [written(child) for child in content]
    value = value_of(node)
    return value.name if isinstance(value, Enum) else value


def same(left: Any, right: Any) -> bool:
    """Whether two trees hold the same values in the same order with the same types and flags."""
    if type(left) is not type(right) or _types(left) != _types(right):
        return False
    below, other = children(left), children(right)
    if list(below) != list(other):
        return False
    if below:
        return all(same(child, other[key]) for key, child in below.items())
    mine, theirs = value_of(left), value_of(right)
    both_nan = mine != mine and theirs != theirs
    return type(mine) is type(theirs) and (both_nan or bool(mine == theirs))


def _types(node: Any) -> list[Any]:
    told = node.__dict__["_metadata"].__dict__
    return [told.get(name) for name in _TYPES]


def along(root: Any, key: str) -> Iterator[Any]:
    """Nodes that an override's key leads through, the last one included, as far as they exist; None: cannot be told."""
    node = root
    for step in split_key(key):
        below = children(node)
        if isinstance(node, ListConfig):
            found = below.get(int(step)) if step.lstrip("-").isdecimal() else None
        elif isinstance(node, DictConfig):
            if node._metadata.key_type not in (str, Any):
                yield None  # OmegaConf reads an enum's or a number's text as a key
                return
            found = below.get(step)
        else:
            found = None
        if found is None:
            return
        yield found
        node = found
