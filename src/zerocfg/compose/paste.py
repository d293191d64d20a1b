"""Hints that hold where they are pasted: an option of a group does not change a field that was written over it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from functools import cache
from typing import Any

import yaml

from zerocfg.compose.origins import SCHEMA_DEFAULT
from zerocfg.confsource import conf_dir
from zerocfg.diagnostics import Diagnostic
from zerocfg.provenance import Origins
from zerocfg.schema import GROUPS

DECISIVE: dict[str, tuple[str, ...]] = {
    "parallelism": ("stage",),
    "precision": ("dtype", "tf32", "master_dtype"),
    "offload": ("optimizer", "param"),
    "activation_checkpointing": ("enabled",),
    "optimizer": ("type",),
    "scheduler": ("type",),
    "checkpoint": ("enabled",),
    "container": ("kind",),
}
"""Fields that a hint means when it names an option of the group; the user's other ones stay as they are."""
_OPTION = re.compile(r"(?<![\w.=])(?P<group>" + "|".join(DECISIVE) + r")=(?P<option>\w+)")


def to_paste(diagnostics: Iterable[Diagnostic], origins: Origins) -> list[Diagnostic]:
    """parallelism=zero3 -> parallelism.stage=3 in a hint, where parallelism.stage was written on the command line or in a config of
    the user's: either beats the option."""
    return [dataclasses.replace(d, hint=_OPTION.sub(lambda match: _with_fields(match, origins), d.hint)) for d in diagnostics]


def _with_fields(match: re.Match[str], origins: Origins) -> str:
    group, option = match["group"], match["option"]
    beaten = [name for name in DECISIVE[group] if _is_written_over(group, name, origins)]
    if not beaten or (sets := _option(group, option)) is None:
        return match[0]
    fields = [f"{group}.{name}={_text(sets.get(name, getattr(GROUPS[group](), name)))}" for name in beaten]
    return " ".join(fields if set(sets) <= set(beaten) else [match[0], *fields])


def _is_written_over(group: str, name: str, origins: Origins) -> bool:
    source = origins.of_exactly(f"{group}.{name}")
    return source != SCHEMA_DEFAULT and re.search(rf"(^|/){group}/[^/]+\.yaml:\d+$", source) is None


@cache
def _option(group: str, option: str) -> dict[str, Any] | None:
    """What a packaged option sets, its name left out; None: there is none of that name."""
    file = conf_dir() / group / f"{option}.yaml"
    return {k: v for k, v in yaml.safe_load(file.read_text()).items() if k != "name"} if file.is_file() else None


def _text(value: Any) -> str:
    plain = getattr(value, "value", value)
    return "null" if plain is None else str(plain).lower() if isinstance(plain, bool) else str(plain)
