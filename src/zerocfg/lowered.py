"""Emitted leaves and their nesting."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from zerocfg.provenance import Reason


@dataclass(frozen=True, slots=True)
class Leaf:
    """One emitted value. Lists are leaves."""

    path: str
    value: Any
    reason: Reason


def nest(leaves: Iterable[Leaf]) -> dict[str, Any]:
    """Dotted paths -> nested dicts, in the order given."""
    root: dict[str, Any] = {}
    for leaf in leaves:
        *parents, last = leaf.path.split(".")
        node = root
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = leaf.value
    return root


def flatten(node: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """The leaves of a nested mapping by dotted path; an empty mapping is a leaf."""
    found: list[tuple[str, Any]] = []
    for key, value in node.items():
        path = f"{prefix}.{key}" if prefix else str(key)
        if isinstance(value, Mapping) and value:
            found += flatten(value, path)
        else:
            found.append((path, value))
    return found


def overlay(base: Mapping[str, Any], top: Mapping[str, Any]) -> dict[str, Any]:
    """`top` laid over `base`: mappings merge, everything else replaces."""
    merged = dict(base)
    for key, value in top.items():
        below = merged.get(key)
        merged[key] = overlay(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return merged
