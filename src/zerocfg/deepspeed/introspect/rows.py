"""Joins what the release says with what the catalogue says."""

from __future__ import annotations

import typing

from zerocfg.deepspeed.catalogue import ENTRIES
from zerocfg.deepspeed.catalogue.entry import FROM_RELEASE, Entry
from zerocfg.deepspeed.catalogue.history import CHANGED_DEFAULTS, since
from zerocfg.deepspeed.catalogue.removed import REMOVED
from zerocfg.deepspeed.introspect.models import model_rows
from zerocfg.deepspeed.introspect.raw import raw_complaints
from zerocfg.deepspeed.introspect.release import Row


def removed_keys() -> tuple[str, ...]:
    """Paths that the release refuses by name."""
    from deepspeed.runtime import config

    return (
        *config._REMOVED_TOP_LEVEL_CONFIG_KEYS,
        *(f"zero_optimization.{name}" for name in config._REMOVED_ZERO_CONFIG_KEYS),
    )


def key_rows() -> tuple[list[Row], list[str]]:
    """The rows of the table, and complaints: what the release has and the catalogue lacks, or the reverse."""
    complaints: list[str] = []
    models = model_rows()
    rows: list[Row] = []
    described = {entry.path for entry in ENTRIES}
    for path in models:
        if path not in described:
            complaints.append(f"added: {path} ({models[path]['type']}) is new in the release; describe it in catalogue/")
    for entry in ENTRIES:
        if entry.reader == "model" and entry.path not in models:
            complaints.append(f"removed: {entry.path} is gone from the release; move it to catalogue/removed.py")
            continue
        rows.append(_row(entry, models.get(entry.path, {})))
    loud = set(removed_keys())
    for gone in REMOVED:
        if gone.loud and gone.path not in loud:
            complaints.append(f"changed: the release no longer refuses {gone.path}")
        row: Row = {"path": gone.path, "type": "any", "status": "removed", "removed_in": gone.removed_in, "doc": gone.doc}
        row.update({"replacement": gone.replacement} if gone.replacement else {})
        row.update({"loud": True} if gone.loud else {})
        rows.append(row)
    for path in sorted(loud - {gone.path for gone in REMOVED}):
        complaints.append(f"added: the release now refuses {path}; add it to catalogue/removed.py")
    return rows, complaints + raw_complaints()


def _row(entry: Entry, fact: Row) -> Row:
    row: Row = {"path": entry.path, **fact, "reader": entry.reader}
    for name in entry.__dataclass_fields__:
        value = getattr(entry, name)
        if name == "path" or value == FROM_RELEASE or value == entry.__dataclass_fields__[name].default:
            continue
        row[name] = value
    if entry.reader == "model" and entry.aliases:
        row["aliases"] = (*typing.cast("tuple[str, ...]", fact.get("aliases", ())), *entry.aliases)
    if since(entry.path):
        row["since"] = since(entry.path)
    if entry.path in CHANGED_DEFAULTS:
        row["changed"] = CHANGED_DEFAULTS[entry.path]
    return {name: value for name, value in row.items() if value != _UNSAID.get(name, _UNSAID)}


_UNSAID: dict[str, object] = {"default": None, "reader": "raw", "aliases": (), "choices": (), "status": "live", "replacement": ""}
"""Values the table leaves out because they are `Key`'s defaults."""
