"""Charts as SVG. Drawn without JavaScript; the page's script adds values under the pointer."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from zerocfg.report.html import Markup, tag
from zerocfg.report.scales import Points, domain, plain, thin, ticks

COLOURS = 10
"""Classes c0..c9 of the style sheet."""
WIDTH, HEIGHT = 640, 280
LEFT, RIGHT, TOP, BOTTOM = 62, 16, 14, 40
SETTLED = 0.04
"""Share of the steps that a settled axis leaves out of its range."""
_DOTS = 30
"""Up to so many points of a series are marked."""
BAR, GAP, LABEL, VALUE = 24, 10, 110, 92


@dataclass(frozen=True, slots=True)
class Series:
    label: str
    points: Points
    colour: int = 0


def line_chart(
    title: str,
    series: Sequence[Series],
    *,
    y_label: str,
    x_label: str = "step",
    zero: bool = False,
    settled: bool = False,
    form: Callable[[float], str] = plain,
    events: Sequence[tuple[float, str]] = (),
) -> Markup | None:
    """zero: the axis begins at 0. settled: what the first steps alone reach lies beyond the axis. events: (x, what happened there).

    None without a point.
    """
    drawn = [Series(s.label, thin(s.points), s.colour) for s in series if s.points]
    if not drawn:
        return None
    xs = [x for s in drawn for x, _ in s.points]
    ys = [y for s in drawn for _, y in s.points]
    x0, x1 = min(xs), max(xs)
    if x0 == x1:
        x0, x1 = x0 - 0.5, x1 + 0.5
    y0, y1 = domain(ys, zero=zero)
    if settled and (later := [y for s in drawn for x, y in s.points if x - x0 >= SETTLED * (x1 - x0)]):
        top = domain(later, zero=zero)[1]
        y1 = top if top - y0 < (y1 - y0) / 2 else y1

    def at(x: float, y: float) -> tuple[float, float]:
        across = LEFT + (x - x0) / (x1 - x0) * (WIDTH - LEFT - RIGHT)
        # a point beyond the axis stays near it: SVG has no use for far ones
        y = min(y, y1 + (y1 - y0))
        return round(across, 2), round(TOP + (y1 - y) / (y1 - y0) * (HEIGHT - TOP - BOTTOM), 2)

    floor = HEIGHT - BOTTOM
    grid = []
    for y in ticks(y0, y1):
        _, v = at(x0, y)
        grid += [tag("line", class_="grid", x1=LEFT, x2=WIDTH - RIGHT, y1=v, y2=v)]
        grid += [tag("text", form(y), class_="tick", x=LEFT - 8, y=v + 4, text_anchor="end")]
    for x in ticks(x0, x1, 6):
        u, _ = at(x, y0)
        grid += [tag("line", class_="axis", x1=u, x2=u, y1=floor, y2=floor + 4)]
        grid += [tag("text", plain(x), class_="tick", x=u, y=floor + 17, text_anchor="middle")]
    grid += [tag("line", class_="axis", x1=LEFT, x2=WIDTH - RIGHT, y1=floor, y2=floor)]
    grid += [tag("text", x_label, class_="tick", x=(LEFT + WIDTH - RIGHT) / 2, y=HEIGHT - 4, text_anchor="middle")]
    for x, what in events:
        if x0 <= x <= x1:
            u, _ = at(x, y0)
            grid += [tag("line", tag("title", what), class_="event", x1=u, x2=u, y1=TOP, y2=floor)]
    marks = []
    for s in drawn:
        places = [at(x, y) for x, y in s.points]
        path = "M" + "L".join(f"{u} {v}" for u, v in places)
        marks += [tag("path", tag("title", s.label), class_=f"mark line c{s.colour % COLOURS}", d=path, data_series=s.label)]
        if len(places) <= _DOTS:
            marks += [
                tag(
                    "circle",
                    tag("title", f"{s.label}, {x_label} {plain(x)}: {form(y)}"),
                    class_=f"mark dot c{s.colour % COLOURS}",
                    cx=u,
                    cy=v,
                    r=2.6,
                    data_series=s.label,
                )
                for (x, y), (u, v) in zip(s.points, places, strict=True)
            ]
    plot = f"{LEFT - 4} {TOP - 6} {WIDTH - LEFT - RIGHT + 8} {floor - TOP + 10}"
    spoken = "; ".join(f"{s.label}: {form(s.points[0][1])} to {form(s.points[-1][1])}" for s in drawn[:8])
    data = {
        "x": x_label,
        "box": [LEFT, TOP, WIDTH - RIGHT, floor],
        "series": [
            {
                "label": s.label,
                "colour": s.colour % COLOURS,
                "points": [[*at(x, y), plain(x), form(y)] for x, y in s.points],
            }
            for s in drawn
        ],
    }
    svg = tag(
        "svg",
        tag("title", title),
        *grid,
        tag("svg", *marks, x=LEFT - 4, y=TOP - 6, width=WIDTH - LEFT - RIGHT + 8, height=floor - TOP + 10, viewBox=plot),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_label=f"{title} by {x_label}. {spoken}",
        class_="chart",
        tabindex="0",
        data_chart=json.dumps(data),
    )
    y_label += ", dashed: a start" if events else ""
    legend = _legend([(s.label, s.colour) for s in drawn]) if len(drawn) > 1 else None
    return tag("figure", tag("figcaption", title, tag("span", y_label, class_="unit")), svg, legend, class_="card")


@dataclass(frozen=True, slots=True)
class Bar:
    label: str
    parts: Sequence[tuple[str, float, int]]
    """(name, value, colour), from left to right."""
    note: str = ""
    """Behind the bar; empty: the sum."""


def bar_chart(
    title: str, bars: Sequence[Bar], *, unit: str, form: Callable[[float], str], limit: tuple[float, str] | None = None, foot: str = ""
) -> Markup | None:
    """Horizontal bars of parts. limit: a line across all, with its name. None without a value."""
    sums = [sum(value for _, value, _ in bar.parts) for bar in bars]
    if not any(sums):
        return None
    # a limit far away would press the bars together
    far = limit is not None and limit[0] > 8 * max(sums)
    longest = max([*sums, *([limit[0]] if limit is not None and not far else [])]) or 1.0
    room = WIDTH - LABEL - VALUE
    height = TOP + len(bars) * (BAR + GAP) + (22 if limit is not None and not far else 4)
    marks = []
    for row, (bar, total) in enumerate(zip(bars, sums, strict=True)):
        y = TOP + row * (BAR + GAP)
        marks += [tag("text", _short(bar.label), class_="name", x=LABEL - 10, y=y + BAR / 2 + 4, text_anchor="end")]
        x = float(LABEL)
        for name, value, colour in bar.parts:
            width = value / longest * room
            share = f" ({value / total:.1%} of {form(total)})" if len(bar.parts) > 1 and total else ""
            hint = f"{bar.label}: {name + ': ' if name else ''}{form(value)}{share}"
            marks += [
                tag(
                    "rect",
                    tag("title", hint),
                    class_=f"mark bar c{colour % COLOURS}",
                    x=round(x, 2),
                    y=y,
                    width=round(max(width, 0.5 if value else 0), 2),
                    height=BAR,
                    data_hint=hint,
                )
            ]
            x += width
        marks += [tag("text", bar.note or form(total), class_="value", x=round(x + 8, 2), y=y + BAR / 2 + 4)]
    if limit is not None and not far:
        u = round(LABEL + limit[0] / longest * room, 2)
        marks += [tag("line", tag("title", limit[1]), class_="limit", x1=u, x2=u, y1=TOP - 6, y2=height - 20)]
        marks += [tag("text", limit[1], class_="tick", x=u, y=height - 6, text_anchor="end")]
    spoken = "; ".join(f"{bar.label}: {form(total)}" for bar, total in zip(bars[:12], sums, strict=False))
    svg = tag(
        "svg",
        tag("title", title),
        *marks,
        viewBox=f"0 0 {WIDTH} {height}",
        role="img",
        aria_label=f"{title}. {spoken}",
        class_="chart bars",
    )
    parts = list(dict.fromkeys((name, colour) for bar in bars for name, _, colour in bar.parts if name))
    caption = tag("figcaption", title, tag("span", unit, class_="unit"))
    return tag("figure", caption, svg, _legend(parts) if parts else None, tag("p", foot, class_="foot") if foot else None, class_="card")


def _short(text: str, most: int = 15) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _legend(entries: Sequence[tuple[str, int]]) -> Markup:
    return tag(
        "ul",
        *(tag("li", tag("span", class_=f"swatch c{colour % COLOURS}"), label, data_series=label) for label, colour in entries),
        class_="legend",
    )
