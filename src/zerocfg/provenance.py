"""Why each value is what it is.

Two layers. A pass says, for each value that it decided, either `asked(config path)` (taken as written) or `rule(pass, why)`.
`Origins` says where a config path was written: file and line, command line, or the schema's default. `trace` joins both.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a pass chose a value."""

    text: str
    """A rule with its numbers, "hidden_size^2 = 4096^2"; empty for a value taken as written."""
    by: str = ""
    """The pass, "resolve.zero"; empty for a value taken as written."""
    config_path: str = ""
    """The config key that it was taken from or that led to it."""


def asked(config_path: str) -> Reason:
    """The value stands as the user (or the group's file) wrote it."""
    return Reason("", config_path=config_path)


def rule(by: str, text: str, config_path: str = "") -> Reason:
    """A pass derived the value."""
    return Reason(text, by=by, config_path=config_path)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a config value was written."""

    source: str
    """conf/parallelism/zero3.yaml:3, "command line: optimizer.lr=2e-5", or "schema default"."""


@dataclass(frozen=True)
class Origins:
    """Config path -> where it was written. A path without an entry of its own has its parent's."""

    by_path: Mapping[str, Origin] = field(default_factory=dict)

    def of(self, path: str) -> str:
        while path:
            if path in self.by_path:
                return self.by_path[path].source
            cut = max(path.rfind("."), path.rfind("["))
            if cut < 0:
                break
            path = path[:cut]
        return "schema default"

    def of_exactly(self, path: str) -> str:
        return self.by_path[path].source if path in self.by_path else "schema default"


@dataclass(frozen=True, slots=True)
class Entry:
    """One leaf of what is emitted."""

    path: str
    value: object
    source: str
    """Config file and line, command line, or pass."""
    reason: str

    def render(self) -> str:
        """`path = value  # source: reason`, one greppable line."""
        return _one_line(f"{self.path} = {_literal(self.value)}  # {self.source}" + (f": {self.reason}" if self.reason else ""))

    def as_dict(self) -> dict[str, object]:
        return {"value": self.value, "source": self.source, "reason": self.reason}


def trace(path: str, value: object, reason: Reason, origins: Origins, decided: Mapping[str, Reason] | None = None) -> Entry:
    """Join a pass's reason with the place where its config value was written.

    decided: reasons of config values that a pass (a probe) filled in because nobody wrote them.
    """
    if reason.by:
        because = reason.text
        if reason.config_path:
            filled_in = (decided or {}).get(reason.config_path)
            where = filled_in.by if filled_in is not None and filled_in.by else origins.of_exactly(reason.config_path)
            because += f" ({reason.config_path} from {where})"
        return Entry(path, value, reason.by, because)
    return Entry(path, value, origins.of_exactly(reason.config_path), reason.config_path)


def _one_line(text: str) -> str:
    """An override may hold a newline; a line of `zerocfg explain` may not."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _literal(value: object) -> str:
    """One line that can be told from its surroundings: a text with blanks, quotes or nothing in it is quoted."""
    if isinstance(value, str):
        return value if value and value.isprintable() and not set(value) & set(" \"'#") else json.dumps(value)
    return json.dumps(value) if value is None or isinstance(value, (bool, int, float)) else str(value)
