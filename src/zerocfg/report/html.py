"""HTML and SVG out of calls: whatever is not markup already is escaped."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_VOID = {"meta", "br", "input"}


class Markup(str):
    """Text that is markup."""

    __slots__ = ()


def escape(value: object) -> str:
    """Characters that would be markup or that no page may hold (control characters, changes of direction) are replaced."""
    return value if isinstance(value, Markup) else html.escape(_UNPRINTABLE.sub("\ufffd", str(value)), quote=True)


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """tag("a", "text", href="x", class_="y"): a trailing underscore is dropped, others are dashes; None and False leave one out."""
    text = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escape(value)}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    return Markup(f"<{name}{text}>" if name in _VOID else f"<{name}{text}>{join(children)}</{name}>")


def join(children: Iterable[object]) -> Markup:
    """None and empty ones are left out, iterables are opened up."""
    parts = []
    for child in children:
        if child is None or child is False:
            continue
        if isinstance(child, (str, int, float)):
            parts.append(escape(child))
        elif isinstance(child, Iterable):
            parts.append(join(child))
    return Markup("".join(parts))
