"""The page of a sweep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from zerocfg.report.charts import Bar, Series, bar_chart, line_chart
from zerocfg.report.data import JobData, SweepData
from zerocfg.report.html import Markup, tag
from zerocfg.report.parts import badge, charts, chips, document, notes, section, table, tiles
from zerocfg.report.run_page import about, log_details, time_bars
from zerocfg.report.scales import plain, seconds
from zerocfg.units import counted, human_bytes

MOST_CURVES, MOST_BARS, MOST_LOGS = 60, 40, 20


def sweep_page(sweep: SweepData) -> str:
    """The HTML of a sweep, whole: it loads nothing."""
    by_state = Counter(job.state for job in sweep.jobs)
    states = [badge(state, count) for state, count in by_state.most_common()]
    common = _common(sweep)
    head = [tag("h1", sweep.name, *states), tag("p", " · ".join(common), class_="about") if common else None]
    body = [
        notes(sweep.notes),
        tiles(_tiles(sweep)),
        section("Training", charts(_losses(sweep), _speeds(sweep), _memory(sweep), _times(sweep))),
        section("Jobs", _table(sweep)),
        section("Jobs that did not end well", *_failures(sweep)),
        section("What all jobs have", chips(_shared(sweep))),
        section("Missing or damaged", _missing(sweep)),
    ]
    return document(f"{sweep.name} · zerocfg", head, body, f"{sweep.folder} · {counted(len(sweep.jobs), 'job')} · zerocfg report")


def _common(sweep: SweepData) -> list[str]:
    """What is said of every job."""
    told = [about(job.run) for job in sweep.jobs if job.run is not None]
    return [word for word in told[0] if all(word in other for other in told)] if told else []


def _shared(sweep: SweepData) -> list[str]:
    first = sweep.jobs[0].overrides if sweep.jobs else ()
    return [word for word in first if len(sweep.jobs) > 1 and all(word in job.overrides for job in sweep.jobs)]


def _own(sweep: SweepData, job: JobData) -> str:
    """Overrides that not all jobs have."""
    shared = set(_shared(sweep))
    return " ".join(word for word in job.overrides if word not in shared)


def _value(job: JobData, name: str) -> float | None:
    return job.run.number(name) if job.run is not None else None


def _best(sweep: SweepData) -> tuple[int, str] | None:
    """Index of the job with the lowest objective, or last loss where no script returned one."""
    for what, values in (
        ("objective", [job.objective for job in sweep.jobs]),
        ("last loss", [_value(job, "last_loss") if job.state == "done" else None for job in sweep.jobs]),
    ):
        known = [(value, i) for i, value in enumerate(values) if value is not None]
        if known:
            return min(known)[1], what
    return None


def _tiles(sweep: SweepData) -> Iterable[tuple[str, str | None, str]]:
    yield "jobs", str(len(sweep.jobs)), ""
    if (best := _best(sweep)) is not None:
        job = sweep.jobs[best[0]]
        value = job.objective if best[1] == "objective" else _value(job, "last_loss")
        yield f"lowest {best[1]}", plain(value) if value is not None else None, f"job {job.label}"
    fastest = max(((speed, job.label) for job in sweep.jobs if (speed := _value(job, "tokens_per_s")) is not None), default=None)
    if fastest is not None:
        yield "most tokens/s", plain(fastest[0]), f"job {fastest[1]}"
    least = min(((size, job.label) for job in sweep.jobs if (size := _value(job, "peak_memory_bytes")) is not None), default=None)
    if least is not None:
        yield "least memory", human_bytes(least[0]), f"job {least[1]}"


def _losses(sweep: SweepData) -> Markup | None:
    curves = [Series(f"job {job.label}", job.run.series("loss"), i) for i, job in enumerate(sweep.jobs) if job.run is not None]
    return line_chart("Loss", [curve for curve in curves if curve.points][:MOST_CURVES], y_label="mean over the ranks", settled=True)


def _bars(sweep: SweepData, name: str) -> list[Bar]:
    known = [(i, job, value) for i, job in enumerate(sweep.jobs) if (value := _value(job, name)) is not None]
    return [Bar(f"job {job.label}", [("", value, i)]) for i, job, value in known[:MOST_BARS]]


def _speeds(sweep: SweepData) -> Markup | None:
    return bar_chart("Tokens a second", _bars(sweep, "tokens_per_s"), unit="all ranks", form=plain)


def _memory(sweep: SweepData) -> Markup | None:
    return bar_chart("Peak memory", _bars(sweep, "peak_memory_bytes"), unit="of the rank that needs most", form=human_bytes)


def _times(sweep: SweepData) -> Markup | None:
    jobs = [(job.run, f"job {job.label}") for job in sweep.jobs if job.run is not None][:MOST_BARS]
    return time_bars([run for run, _ in jobs], [label for _, label in jobs])


_MEASURED: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("loss", "last_loss", plain),
    ("tokens/s", "tokens_per_s", plain),
    ("MFU", "mfu", "{:.1%}".format),
    ("memory", "peak_memory_bytes", human_bytes),
    ("time", "seconds", seconds),
)


def _table(sweep: SweepData) -> Markup:
    """Columns without a value are left out."""
    columns: list[tuple[str, list[float | None], Callable[[float], str]]] = [("objective", [job.objective for job in sweep.jobs], plain)]
    columns += [(heading, [_value(job, name) for job in sweep.jobs], form) for heading, name, form in _MEASURED]
    shown = [column for column in columns if any(value is not None for value in column[1])]
    rows: list[list[tuple[object, object]]] = []
    for i, job in enumerate(sweep.jobs):
        cells = [("", None) if (value := values[i]) is None else (form(value), value) for _, values, form in shown]
        swatch = tag("span", class_=f"swatch c{i % 10}", style="display:inline-block;margin-right:6px")
        own = _own(sweep, job)
        rows.append([(tag("span", swatch, job.label), i), (badge(job.state), job.state), *cells, (tag("code", own), own)])
    headings = [("job", "n"), ("state", ""), *((heading, "n") for heading, _, _ in shown), ("overrides of its own", "wide")]
    best = _best(sweep)
    return table(headings, rows, best=best[0] if best is not None else None, sortable=True)


def _failures(sweep: SweepData) -> list[Markup]:
    failed = [job for job in sweep.jobs if job.run is not None and job.run.logs]
    made = [
        found
        for i, job in enumerate(failed[:MOST_LOGS])
        if job.run is not None
        for found in log_details(job.run, f"job {job.label}: {job.state}", opened=i < 3)
    ]
    return made + ([tag("p", f"and {len(failed) - MOST_LOGS} more", class_="about")] if len(failed) > MOST_LOGS else [])


def _missing(sweep: SweepData) -> Markup | None:
    found = [(job, note) for job in sweep.jobs if job.run is not None for note in job.run.notes]
    gone = [job for job in sweep.jobs if job.run is None and job.state != "infeasible"]
    lines = [f"job {job.label}: its folder is not there" for job in gone] + [f"job {job.label}: {note}" for job, note in found]
    return tag("ul", *(tag("li", line) for line in lines[:200])) if lines else None
