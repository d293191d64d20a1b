"""How the hand-written part of the key table is said: one `Entry` a key.

`model(...)` describes a key that a pydantic model of DeepSpeed validates: type, default and limits are read from the
installed release by `zerocfg.deepspeed.introspect`. `raw(...)` describes a key that DeepSpeed looks up in the plain dict:
no code states its type, so it is written here, and the test of the table compares the default with what the installed
release answers for an empty config.

Words of `needs` (see `zerocfg.deepspeed.view.unmet`):
    "a.b"            the value at that path must be true
    "a.b=x|y"        the value at that path must be one of these
    "p or q"         either of two such conditions
    "accelerator=x"  only on that accelerator
    "call: f()"      the training script has to call this; the JSON alone does nothing
    "model: X"       only with a model of that kind
    "env: A, B"      these variables must be set for each rank
"""

from __future__ import annotations

from dataclasses import dataclass

FROM_RELEASE = "<from the release>"
"""Marks what introspection fills in."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What is known of one key beyond (or instead of) what the release says. Fields as in `zerocfg.deepspeed.keys.Key`."""

    path: str
    doc: str
    reader: str
    type: str = FROM_RELEASE
    default: object = FROM_RELEASE
    choices: tuple[object, ...] = ()
    casefold: bool = False
    rejects_bool: bool = False
    gt: float | None = None
    ge: float | None = None
    lt: float | None = None
    le: float | None = None
    stages: tuple[int, ...] = ()
    needs: tuple[str, ...] = ()
    status: str = "live"
    replacement: str = ""
    aliases: tuple[str, ...] = ()
    required: bool = False
    removed_in: str = ""


def model(path: str, doc: str, **facts: object) -> Entry:
    """A key of a pydantic model."""
    return Entry(path=path, doc=doc, reader="model", **facts)  # type: ignore[arg-type]


def raw(path: str, type: str, default: object, doc: str, **facts: object) -> Entry:
    """A key looked up in the plain dict."""
    return Entry(path=path, doc=doc, reader="raw", type=type, default=default, **facts)  # type: ignore[arg-type]


def section(path: str, doc: str, **facts: object) -> Entry:
    """A plain dict of further keys. `nullable=True` where DeepSpeed takes null for absent."""
    type_ = "section|null" if facts.pop("nullable", False) else "section"
    return Entry(path=path, doc=doc, reader="raw", type=type_, default=None, **facts)  # type: ignore[arg-type]
