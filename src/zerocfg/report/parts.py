"""Pieces that the pages of runs and sweeps share, and the page around them."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import Any

from zerocfg.report.html import Markup, join, tag

KINDS = {"done": "done", "failed": "failed", "timeout": "failed", "out_of_memory": "failed", "node_fail": "failed", "infeasible": "failed"}
"""State -> its colour; others are neither good nor bad."""


def document(title: str, heading: Iterable[object], body: Iterable[object], foot: str) -> str:
    """The whole page. Nothing is loaded, and no other script than ours is run, whatever the page's text holds."""
    style, script = (files(__package__).joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Markup(style)),
    ]
    page = tag(
        "html",
        tag("head", *head),
        tag("body", tag("header", heading), tag("main", body), tag("footer", foot), tag("script", Markup(script))),
        lang="en",
    )
    return f"<!doctype html>\n{page}\n"


def badge(state: str, count: int | None = None) -> Markup:
    return tag("span", state if count is None else f"{count} {state}", class_=f"state {KINDS.get(state, '')}".rstrip())


def tiles(entries: Iterable[tuple[str, str | None, str]]) -> Markup:
    """(what, value, remark); those without a value are left out."""
    return tag(
        "ul",
        *(
            tag("li", tag("span", what, class_="what"), tag("b", value), tag("span", remark) if remark else None)
            for what, value, remark in entries
            if value is not None
        ),
        class_="tiles",
    )


def notes(entries: Sequence[str]) -> Markup | None:
    return tag("ul", *(tag("li", entry) for entry in entries), class_="notes") if entries else None


def section(title: str, *children: object) -> Markup | None:
    inner = join(children)
    return tag("section", tag("h2", title), inner) if inner else None


def charts(*made: Markup | None) -> Markup | None:
    shown = [chart for chart in made if chart is not None]
    return tag("div", *shown, class_="charts") if shown else None


def chips(words: Sequence[str]) -> Markup | None:
    return tag("ul", *(tag("li", tag("code", word)) for word in words), class_="chips") if words else None


def details(title: str, text: str, *, remark: str = "", opened: bool = False, log: bool = False) -> Markup:
    return tag(
        "details",
        tag("summary", title, tag("small", f"  {remark}") if remark else None),
        tag("pre", text, class_="log" if log else None),
        open=opened,
    )


def table(
    columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[tuple[object, Any]]], *, best: int | None = None, sortable: bool = False
) -> Markup:
    """columns: (heading, class of its cells). rows: (shown, what it is sorted by). best: the row that stands out."""
    head = tag(
        "tr",
        *(tag("th", tag("button", name, type="button") if sortable else name, scope="col", class_=kind or None) for name, kind in columns),
    )
    lines = [
        tag(
            "tr",
            *(
                tag("td", shown, class_=kind or None, data_key="" if key is None else key)
                for (shown, key), (_, kind) in zip(row, columns, strict=True)
            ),
            class_="best" if i == best else None,
        )
        for i, row in enumerate(rows)
    ]
    made = tag("table", tag("thead", head), tag("tbody", *lines), class_="sortable" if sortable else None)
    return tag("div", made, class_="table", tabindex="0", role="region", aria_label="table")
