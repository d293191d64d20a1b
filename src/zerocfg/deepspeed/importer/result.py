"""What an import gives back: every leaf of the input accounted for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Outcome = Literal["expressed", "kept", "migrated", "refused"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportedEntry:
    """What became of one leaf of the file."""

    path: str
    """As spelled in the file."""
    value: Any
    outcome: Outcome
    """expressed: by a config group. kept: under `deepspeed`. migrated: written in another way, with the same meaning or
    with an "auto" resolved. refused: DeepSpeed ignores it or would fail on it, so it is not carried over."""
    code: str
    """The diagnostic code of a refusal or migration; empty otherwise."""
    reason: str

    def as_dict(self) -> dict[str, Any]:
        return {"path": self.path, "value": self.value, "outcome": self.outcome, "code": self.code, "reason": self.reason}


@dataclass(frozen=True, kw_only=True, slots=True)
class Imported:
    groups: Mapping[str, str]
    """Group -> option."""
    values: Mapping[str, Any]
    """Config path -> value, over the options."""
    kept: Mapping[str, Any]
    """What goes under `deepspeed`, nested."""
    entries: tuple[ImportedEntry, ...]
    world_sizes: tuple[int, ...]
    """Data-parallel world sizes that the batch numbers allow, up to 1024; empty: none does."""

    @property
    def overrides(self) -> list[str]:
        """Group and value overrides as Hydra's command line takes them, then the kept leaves."""
        from zerocfg.lowered import flatten

        return [
            *(f"{group}={option}" for group, option in self.groups.items()),
            *(f"{path}={hydra_text(value)}" for path, value in self.values.items()),
            *(f"+deepspeed.{path}={hydra_text(value)}" for path, value in flatten(self.kept)),
        ]

    def as_dict(self) -> dict[str, Any]:
        """The shape of `zerocfg import --json`."""
        return {
            "overrides": self.overrides,
            "kept": dict(self.kept),
            "entries": [entry.as_dict() for entry in self.entries],
            "world_sizes": list(self.world_sizes),
        }


def hydra_text(value: Any) -> str:
    """A value in the grammar of Hydra's overrides."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{hydra_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(hydra_text(item) for item in value) + "]"
    text = str(value)
    if text and text.replace("_", "a").replace("/", "a").replace(".", "a").replace("-", "a").isalnum() and not _looks_typed(text):
        return text
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _looks_typed(text: str) -> bool:
    if text.lower() in ("null", "true", "false", "nan", "inf"):
        return True
    try:
        float(text.replace("_", ""))
    except ValueError:
        return False
    return True
