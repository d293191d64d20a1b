"""Whether a value fits a key, judged as DeepSpeed judges it.

Two readers: a pydantic model coerces ("8" is 8, "true" is true, 5e8 is 500000000) and refuses the rest; a raw look-up keeps
whatever stands there. Found by trying values on DeepSpeed 0.19.8 with pydantic 2; tests/deepspeed/test_values.py compares.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from zerocfg.deepspeed.keys import Key


class Outcome(Enum):
    OK = "ok"
    COERCED = "coerced"
    """Accepted, but as another value or another type than written."""
    REFUSED = "refused"
    """Wrong type for a pydantic model: DeepSpeed raises."""
    KEPT = "kept"
    """Wrong type for a raw look-up: DeepSpeed keeps it and uses it as it is."""
    SHAPE = "shape"
    """A section that is no dict."""
    NULL = "null"
    AUTO = "auto"
    NONFINITE = "nonfinite"
    FRACTION = "fraction"
    """A fractional number for a whole one."""
    LIMIT = "limit"
    CHOICE = "choice"


@dataclass(frozen=True, slots=True)
class Judgement:
    outcome: Outcome
    value: object
    """What the key means to DeepSpeed; its default where the value is unusable."""
    reason: str = ""

    @property
    def usable(self) -> bool:
        return self.outcome in (Outcome.OK, Outcome.COERCED)


LARGEST = 2**63
"""Whole numbers from here on fit no counter of a machine. Python takes them, so DeepSpeed would only fail later."""


def usable_number(value: object) -> float | None:
    """`value` when it is a number to calculate with; None for text, true, NaN, infinity and the absurdly large."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) < LARGEST or (isinstance(value, float) and math.isfinite(value)) else None


_TRUE = frozenset({"1", "on", "t", "true", "y", "yes"})
_FALSE = frozenset({"0", "off", "f", "false", "n", "no"})
_WHOLE = re.compile(r"[+-]?[0-9]+(_[0-9]+)*(\.0+)?")
_PLAIN_WHOLE = re.compile(r"[+-]?[0-9]+(_[0-9]+)*")
_MISFIT = object()


def judge(key: Key, value: object) -> Judgement:
    """How DeepSpeed takes `value` for `key`."""
    if value == "auto" and isinstance(value, str):
        if '"auto"' in key.kinds or "auto" in key.choices:
            return Judgement(Outcome.OK, value)
        return Judgement(Outcome.AUTO, key.default)
    if value is None:
        return Judgement(Outcome.OK if "null" in key.kinds or "any" in key.kinds else Outcome.NULL, key.default)
    if isinstance(value, float) and not math.isfinite(value):
        return Judgement(Outcome.NONFINITE, key.default)
    if isinstance(value, int) and abs(value) >= LARGEST:
        return Judgement(Outcome.LIMIT, key.default, "must be less than 2^63")
    if key.is_section or key.kinds[0] == "object":
        if isinstance(value, Mapping):
            return Judgement(Outcome.OK, value)
        if "bool" not in key.kinds or not isinstance(value, bool):
            return Judgement(Outcome.SHAPE, key.default)
        return Judgement(Outcome.OK, value)
    return _judge_scalar(key, value)


def _judge_scalar(key: Key, value: object) -> Judgement:
    kinds = [kind for kind in key.kinds if kind not in ("null", "section") and not kind.startswith('"')]
    if any(_is_exactly(kind, value) for kind in kinds):
        return _within(key, value, Outcome.OK, "")
    if key.rejects_bool and isinstance(value, bool):
        return Judgement(Outcome.REFUSED, key.default)
    if key.reader == "model" and isinstance(value, str) and '"auto"' in key.kinds:
        return Judgement(Outcome.REFUSED, key.default)
    for kind in kinds:
        taken, reason = _coerce(kind, key, value)
        if taken is not _MISFIT:
            whole_float = key.reader == "model" and isinstance(value, float) and isinstance(taken, int) and not isinstance(taken, bool)
            return _within(key, taken, Outcome.OK if whole_float else Outcome.COERCED, reason)
    if "int" in kinds and isinstance(value, float) and not value.is_integer():
        return Judgement(Outcome.FRACTION, key.default)
    return Judgement(Outcome.REFUSED if key.reader == "model" else Outcome.KEPT, key.default)


def _is_exactly(kind: str, value: object) -> bool:
    if kind == "any":
        return True
    if kind == "bool":
        return isinstance(value, bool)
    if kind == "int":
        return isinstance(value, int) and not isinstance(value, bool)
    if kind == "float":
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind in ("str", "path"):
        return isinstance(value, str)
    if kind == "list":
        return isinstance(value, list | tuple)
    if kind == "object":
        return isinstance(value, Mapping)
    if kind == "list[str]":
        return isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)
    return False


def _coerce(kind: str, key: Key, value: object) -> tuple[object, str]:
    """What `value` becomes as a `kind`, and what is odd about it; _MISFIT when DeepSpeed does not take it."""
    if key.reader == "raw":
        return _take_raw(kind, value)
    if kind == "bool":
        if isinstance(value, int | float) and value in (0, 1):
            return bool(value), "a number stands for true or false"
        if isinstance(value, str) and value.lower() in _TRUE | _FALSE:
            return value.lower() in _TRUE, "a text stands for true or false"
    elif kind == "int":
        if isinstance(value, bool):
            return int(value), f"{str(value).lower()} counts as {int(value)}"
        if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
            return int(value), "a whole number written as a fraction"
        pattern = _PLAIN_WHOLE if key.rejects_bool or key.choices else _WHOLE
        if isinstance(value, str) and len(value) < 30 and pattern.fullmatch(value if key.choices else value.strip()):
            return int(value.strip().partition(".")[0].replace("_", "")), "a number written as text"
    elif kind == "float":
        if isinstance(value, bool):
            return float(value), f"{str(value).lower()} counts as {float(value)}"
        if isinstance(value, str):
            try:
                number = float(value)
            except ValueError:
                return _MISFIT, ""
            return (number, "a number written as text") if math.isfinite(number) else (_MISFIT, "")
    return _MISFIT, ""


def _take_raw(kind: str, value: object) -> tuple[object, str]:
    """Raw look-ups keep the value; these happen to behave as meant."""
    if kind == "bool" and isinstance(value, int) and value in (0, 1):
        return bool(value), "a number stands for true or false"
    if kind in ("int", "float") and isinstance(value, bool):
        return int(value), f"{str(value).lower()} counts as {int(value)}"
    if kind == "int" and isinstance(value, float) and value.is_integer():
        return int(value), "DeepSpeed keeps the fraction here"
    return _MISFIT, ""


def _within(key: Key, value: object, outcome: Outcome, reason: str) -> Judgement:
    """`value` has the right type; is it one of the choices and inside the limits?"""
    if key.choices:
        chosen = _chosen(key, value)
        if chosen is _MISFIT:
            return Judgement(Outcome.CHOICE, key.default)
        value = chosen
    if isinstance(value, int | float) and not isinstance(value, bool):
        broken = out_of_limits(key, value)
        if broken:
            return Judgement(Outcome.LIMIT, key.default, broken)
    return Judgement(outcome, value, reason)


def _chosen(key: Key, value: object) -> object:
    if isinstance(value, list | tuple):
        return value if all(_chosen(key, item) is not _MISFIT for item in value) else _MISFIT
    for choice in key.choices:
        same = str(choice).casefold() == str(value).casefold() if key.casefold else choice == value
        if same:
            return choice
    return _MISFIT


def out_of_limits(key: Key, value: float) -> str:
    """The limit that `value` breaks, as text; empty when it breaks none."""
    if key.gt is not None and not value > key.gt:
        return f"must be greater than {key.gt:g}"
    if key.ge is not None and not value >= key.ge:
        return f"must be at least {key.ge:g}"
    if key.lt is not None and not value < key.lt:
        return f"must be less than {key.lt:g}"
    if key.le is not None and not value <= key.le:
        return f"must be at most {key.le:g}"
    return ""
