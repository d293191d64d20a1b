"""zerocfg explain: why each value is what it is, one greppable line a leaf."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, cast

from omegaconf import OmegaConf

from zerocfg.cli import output
from zerocfg.cli.outcome import Result, examine_overrides
from zerocfg.compose.nearest import nearest_key
from zerocfg.diagnostics import Diagnostic
from zerocfg.hidden import HIDDEN, secret_path
from zerocfg.provenance import Entry

CONFIG = "config."
"""Prefix of what was asked: config.optimizer.lr. The emitted JSON has an optimizer section of its own."""


def explain_command(words: Sequence[str], *, config_path: str | None = None, config_name: str | None = None) -> int:
    """Print `path = value  # source: reason` for every emitted value, or for those at and below the key."""
    key, overrides = split_key(words)
    result = examine_overrides(overrides, config_path, config_name)
    output.report(result.diagnostics)
    if result.run is None:
        return 1
    emitted = result.run.provenance
    chosen = list(emitted.values())
    if key is not None:
        asked = {entry.path: entry for entry in asked_entries(result)}
        chosen = below(key, emitted) or below(key, asked) or below(CONFIG + key, asked)
        if not chosen:
            output.report([_unknown(key, [*emitted, *asked])])
            return 1
    for entry in chosen:
        output.product(entry.render())
    return 0


def split_key(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """KEY is the first word without = (a deletion, ~x, is an override)."""
    for i, word in enumerate(words):
        if "=" not in word and not word.startswith("~"):
            return word, [*words[:i], *words[i + 1 :]]
    return None, list(words)


def below(key: str, entries: Mapping[str, Entry]) -> list[Entry]:
    """The entry at `key` and those below it."""
    return [entry for path, entry in entries.items() if path == key or path.startswith((f"{key}.", f"{key}["))]


def asked_entries(result: Result) -> Iterator[Entry]:
    """The composed config, leaf by leaf, each with the place where it was written; a project's own keys too, as they are written."""
    ours = result.composed.container
    own = cast("dict[str, Any]", OmegaConf.to_container(result.composed.cfg, resolve=False))
    for path, value in _leaves("", {**ours, **{key: value for key, value in own.items() if key not in ours and key != "hydra"}}):
        yield Entry(CONFIG + path, HIDDEN if secret_path(path) else value, result.composed.origins.of(path), "")


def _leaves(prefix: str, node: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield from _leaves(f"{prefix}.{key}" if prefix else str(key), value)
    elif isinstance(node, Enum):
        yield prefix, node.value
    else:
        yield prefix, node


def _unknown(key: str, known: Sequence[str]) -> Diagnostic:
    near = nearest_key(key, known)
    head = f"{section}." if (section := key.rpartition(".")[0]) else ""
    beside, tops = (
        sorted({start + path[len(start) :].partition(".")[0] for path in known if path.startswith(start)}) for start in (head, "")
    )
    return Diagnostic(
        code="ZC180",
        path=key,
        message=f"{key} is neither emitted nor a key of the config",
        hint=" or ".join(near) if near else f"one of {', '.join(beside or tops)}",
    )
