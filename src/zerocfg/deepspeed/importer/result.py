"""What an import gives back: every leaf of the input accounted for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from zerocfg.deepspeed.importer.text import kept_leaves, override
from zerocfg.diagnostics import Diagnostic

Outcome = Literal["expressed", "kept", "migrated", "refused"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportedEntry:
    """What became of one leaf of the file."""

    path: str
    """As spelled in the file; a name with a dot in it stands in quotes."""
    value: Any
    """As it stands in the file."""
    outcome: Outcome
    """expressed: by a config group. kept: under `deepspeed`. migrated: written in another way, with the same meaning or
    with an "auto" resolved. refused: DeepSpeed ignores it or would fail on it, so it is not carried over."""
    code: str
    """The diagnostic code of a refusal or migration; empty otherwise."""
    reason: str

    def as_dict(self) -> dict[str, Any]:
        return {"path": self.path, "outcome": self.outcome, "code": self.code, "reason": self.reason, "value": self.value}


@dataclass(frozen=True, kw_only=True, slots=True)
class Imported:
    groups: Mapping[str, str]
    """Group -> option."""
    values: Mapping[str, Any]
    """Config path -> value, over the options."""
    kept: Mapping[str, Any]
    """What goes under `deepspeed`, nested."""
    understood: Mapping[str, Any]
    """The file as DeepSpeed takes it: migrated, without what is refused; what the groups and `kept` say together."""
    entries: tuple[ImportedEntry, ...]
    world_sizes: tuple[int, ...]
    """Numbers of ranks that the batch numbers allow, up to 1024 where there is no end; empty: none does."""
    any_world_size: bool
    """No global batch size: micro x accumulation fits any number of ranks."""
    notes: tuple[Diagnostic, ...] = ()
    """About what the file does not say, and arguments that decide nothing."""

    @property
    def overrides(self) -> list[str]:
        """Group and value overrides in Hydra's grammar, then the kept leaves; shell quoting is for who prints them."""
        return [
            *(f"{group}={option}" for group, option in self.groups.items()),
            *(override(path, value) for path, value in self.values.items()),
            *(f"+{override(path, value)}" for path, value in kept_leaves(self.kept)),
        ]

    def as_dict(self) -> dict[str, Any]:
        """The shape of `zerocfg import --json`."""
        return {
            "overrides": self.overrides,
            "kept": dict(self.kept),
            "entries": [entry.as_dict() for entry in self.entries],
            "world_sizes": list(self.world_sizes),
        }
