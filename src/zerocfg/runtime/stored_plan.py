"""plan.json -> Plan, with its properties."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from zerocfg.plan import Plan


def plan_from(stored: Mapping[str, Any]) -> Plan:
    """The Plan that `write_compiled` wrote as plain data."""
    plan = _read(Plan, stored)
    assert isinstance(plan, Plan)
    return plan


def _read(hint: Any, value: Any) -> Any:
    if value is None:
        return None
    options = [a for a in typing.get_args(hint) if a is not type(None)]
    if is_dataclass(hint) and isinstance(hint, type):
        hints = typing.get_type_hints(hint)
        return hint(**{field.name: _read(hints[field.name], value[field.name]) for field in fields(hint)})
    if len(options) == 1 and is_dataclass(options[0]) and typing.get_origin(hint) is not tuple:
        return _read(options[0], value)
    return tuple(_read(options[0], item) for item in value) if typing.get_origin(hint) is tuple else value
