"""The page of one run."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone

from zerocfg.report.charts import Bar, Series, bar_chart, line_chart
from zerocfg.report.data import RunData, number
from zerocfg.report.html import Markup, tag
from zerocfg.report.parts import badge, charts, chips, details, document, notes, section, table, tiles
from zerocfg.report.scales import plain, seconds
from zerocfg.units import counted, human_bytes

PARTS = (("forward", 0), ("backward", 1), ("optimizer", 2), ("data", 4))
"""Parts of a step's time, with their colours; what they leave is between them."""
REST = 8
MOST_RANKS = 24


def run_page(run: RunData) -> str:
    """The HTML of one run, whole: it loads nothing."""
    head = [tag("h1", run.name, badge(run.state)), tag("p", " · ".join(about(run)), class_="about")]
    body = [
        notes(run.notes),
        tiles(_tiles(run)),
        section("Training", charts(_loss(run), _speed(run), _times(run), _rate(run))),
        section("Where the time and the memory go", charts(_memory(run), time_bars([run]), communication(run))),
        section("How it ended", log_details(run, "last lines", opened=True)),
        section("Configuration", _configuration(run)),
        section("Checkpoints and starts", _checkpoints(run)),
        section("Logged values", _values(run)),
    ]
    return document(f"{run.name} · zerocfg", head, body, f"{run.folder} · zerocfg report")


def about(run: RunData) -> list[str]:
    """What ran, in a few words."""
    model, stage = run.get("model.name", ""), number(run.get("zero.stage"))
    nodes = int(number(run.get("topology.num_nodes")) or 1)
    where = run.get("hardware.gpu") or run.get("hardware.name", "")
    words = [
        str(model),
        f"ZeRO stage {stage:.0f}" if stage is not None else "",
        str(run.get("precision.dtype", "")),
        f"{counted(run.world_size, 'rank')}{f' on {nodes} nodes' if nodes > 1 else ''}" if run.world_size else "",
        str(where),
        f"global batch {plain(batch)}" if (batch := number(run.get("batch.global_batch_size"))) else "",
        _when(run),
    ]
    return [word for word in words if word]


def _when(run: RunData) -> str:
    first = number(run.records[0].get("time")) if run.records else None
    try:
        begun = datetime.fromtimestamp(first, timezone.utc) if first is not None else None
    except (OverflowError, OSError, ValueError):
        return ""
    return f"first step {begun:%Y-%m-%d %H:%M} UTC" if begun else ""


def _tiles(run: RunData) -> Iterable[tuple[str, str | None, str]]:
    steps, planned = run.number("steps"), number(run.summary.get("planned_steps")) or number(run.get("train.steps"))
    yield "steps", plain(steps) if steps is not None else None, f"of {plain(planned)}" if planned else ""
    loss, first = run.number("last_loss"), number(run.summary.get("first_loss"))
    yield "last loss", plain(loss) if loss is not None else None, f"from {plain(first)}" if first is not None else ""
    speed, each = run.number("tokens_per_s"), run.number("tokens_per_s_per_gpu")
    predicted = number(run.summary.get("predicted_tokens_per_s"))
    remark = f"{plain(each)} a rank" if each is not None else ""
    yield "tokens/s", plain(speed) if speed is not None else None, _join(remark, _against(speed, predicted))
    mfu = run.number("mfu")
    yield "MFU", f"{mfu:.1%}" if mfu is not None else None, "model FLOPs over the data sheet's peak"
    step = run.number("step_seconds")
    yield "a step", seconds(step) if step is not None else None, ""
    memory, foreseen = run.number("peak_memory_bytes"), number(run.summary.get("predicted_peak_memory_bytes"))
    kind = "" if run.get("hardware.accelerator") == "cuda" else "resident, of the largest rank"
    yield "peak memory", human_bytes(memory) if memory is not None else None, _join(kind, _against(memory, foreseen))
    skipped = number(run.summary.get("skipped_steps"))
    yield "skipped steps", plain(skipped) if skipped else None, "overflow of the loss scale"
    whole = run.number("seconds")
    saving = number(run.summary.get("checkpoint_seconds"))
    yield "training time", seconds(whole) if whole is not None else None, f"{seconds(saving)} saving" if saving else ""


def _against(value: float | None, predicted: float | None) -> str:
    if value is None or not predicted:
        return ""
    off = value / predicted - 1
    return f"{abs(off):.1%} {'above' if off > 0 else 'below'} the prediction"


def _join(*words: str) -> str:
    return ", ".join(word for word in words if word)


def _events(run: RunData) -> list[tuple[float, str]]:
    starts = run.summary.get("resumed_at")
    steps = [number(step) for step in starts] if isinstance(starts, list) else []
    return [(step, f"resumed after step {plain(step)}") for step in steps if step is not None]


def _loss(run: RunData) -> Markup | None:
    return line_chart("Loss", [Series("loss", run.series("loss"), 0)], y_label="mean over the ranks", settled=True, events=_events(run))


def _speed(run: RunData) -> Markup | None:
    return line_chart(
        "Tokens a second", [Series("tokens/s", run.series("tokens_per_s"), 2)], y_label="all ranks", zero=True, events=_events(run)
    )


def _rate(run: RunData) -> Markup | None:
    points = run.series("lr")
    return (
        line_chart("Learning rate", [Series("lr", points, 5)], y_label="first group", zero=True)
        if len({y for _, y in points}) > 1
        else None
    )


def _times(run: RunData) -> Markup | None:
    named = [Series("the whole", run.series("step_seconds"), REST)]
    named += [Series(_NAMES[name], run.series(f"{name}_seconds"), colour) for name, colour in PARTS]
    named += [Series("collectives", run.series("communication_seconds"), 3)]
    return line_chart("Time of a step", named, y_label="mean since the line before", zero=True, form=seconds, events=_events(run))


def time_bars(runs: Sequence[RunData], labels: Sequence[str] = ()) -> Markup | None:
    """A bar of the parts of a step for each run that has them."""
    bars = []
    for run, label in zip(runs, labels or ["a step"] * len(runs), strict=True):
        step = run.number("step_seconds")
        found = [(name, value, colour) for name, colour in PARTS if (value := run.number(f"{name}_seconds")) is not None]
        if step is None or not found:
            continue
        rest = max(0.0, step - sum(value for _, value, _ in found))
        bars.append(
            Bar(
                label, [(_NAMES[name], value, colour) for name, value, colour in found] + [("between the calls", rest, REST)], seconds(step)
            )
        )
    return (
        bar_chart("Parts of a step", bars, unit="mean of all steps but the first", form=seconds, foot=_SPLIT if bars else "")
        if bars
        else None
    )


_NAMES = {"forward": "forward", "backward": "backward", "optimizer": "optimizer step", "data": "waiting for data"}
_SPLIT = "Reduction of gradients counts where DeepSpeed waits for it: in the backward pass, or in the optimizer step."


def communication(run: RunData) -> Markup | None:
    """The share of collectives, where the run's profile looked for it."""
    logged, step = run.number("communication_seconds"), run.number("step_seconds")
    share, exposed = run.number("communication_share"), run.number("exposed_communication_share")
    form = "{:.1%}".format
    if logged is not None and step:
        share = logged / step
        parts = [("collectives", share, 3), ("the rest", max(0.0, 1 - share), REST)]
        foot = "By DeepSpeed's comms logger, which makes each collective blocking: nothing is hidden beside computation."
    elif share is not None and exposed is not None:
        parts = [
            ("collectives that nothing hides", exposed, 7),
            ("hidden collectives", share - exposed, 3),
            ("no collective", 1 - share, REST),
        ]
        foot = f"By torch.profiler on rank 0, waiting for other ranks included: {run.summary.get('profile_trace', '')}"
    elif share is not None:
        parts = [("collectives", share, 3), ("the rest", 1 - share, REST)]
        foot = f"By torch.profiler on rank 0, waiting for other ranks included: {run.summary.get('profile_trace', '')}"
    else:
        return None
    return bar_chart("Communication", [Bar("a step", parts, f"{form(share)}")], unit="share of the time", form=form, foot=foot)


def _memory(run: RunData) -> Markup | None:
    by_rank = run.memory_by_rank
    order = sorted(range(len(by_rank)), key=lambda rank: -by_rank[rank])[:MOST_RANKS]
    bars = [Bar(f"rank {rank}", [("measured", by_rank[rank], 6)]) for rank in sorted(order)]
    foot = f"The {MOST_RANKS} of {len(by_rank)} ranks that need most." if len(by_rank) > MOST_RANKS else ""
    limit = None
    if run.prediction is not None:
        shown = sorted(run.prediction.parts.items(), key=lambda entry: -entry[1])
        colours = [0, 1, 2, 3, 4, 5, 7, 9]
        parts = [(name, float(size), colours[i]) for i, (name, size) in enumerate(shown[:7])]
        if rest := sum(size for _, size in shown[7:]):
            parts.append(("other", float(rest), REST))
        bars.insert(0, Bar("predicted", parts))
        limit = (float(run.prediction.memory_bytes), f"the GPU: {human_bytes(run.prediction.memory_bytes)}")
    unit = "allocated at the peak" if run.get("hardware.accelerator") == "cuda" else "resident set at its highest"
    return bar_chart("Memory of a rank", bars, unit=unit, form=human_bytes, limit=limit, foot=foot) if bars else None


def log_details(run: RunData, title: str, *, opened: bool) -> list[Markup]:
    return [details(title, "\n".join(log.lines), remark=log.name, opened=opened, log=True) for log in run.logs]


def _configuration(run: RunData) -> list[object]:
    made: list[object] = [chips(run.overrides) or tag("p", "no overrides", class_="about")]
    if run.deepspeed:
        made.append(details("DeepSpeed JSON", json.dumps(run.deepspeed, indent=2), remark="compiled/ds_config.json"))
    if run.torchrun:
        made.append(details("torchrun", " \\\n  ".join(map(shlex.quote, run.torchrun)), remark=f"{len(run.torchrun)} arguments"))
    if run.environment:
        text = "\n".join(f"{name}={value}" for name, value in run.environment.items())
        made.append(details("environment", text, remark="what the run sets"))
    if run.plan:
        made.append(details("plan", json.dumps(run.plan, indent=2), remark="every value, decided"))
    return made


def _checkpoints(run: RunData) -> list[object]:
    made: list[object] = []
    if run.checkpoints:
        rows = [[(plain(c.step), c.step), (c.path, c.path), (human_bytes(c.size_bytes), c.size_bytes)] for c in run.checkpoints]
        made.append(table([("after step", "n"), ("folder", ""), ("size", "n")], rows))
    if run.damaged:
        made.append(tag("ul", *(tag("li", f"not whole: {text}") for text in run.damaged)))
    if starts := _events(run):
        made.append(tag("p", "Starts: at step 1; " + "; ".join(what for _, what in starts), class_="about"))
    return made


_COLUMNS = (
    ("step", plain),
    ("loss", plain),
    ("lr", plain),
    ("tokens_per_s", plain),
    ("mfu", "{:.1%}".format),
    ("step_seconds", seconds),
    ("forward_seconds", seconds),
    ("backward_seconds", seconds),
    ("optimizer_seconds", seconds),
    ("data_seconds", seconds),
    ("communication_seconds", seconds),
    ("memory_bytes", human_bytes),
)
_MOST_ROWS = 200


def _values(run: RunData) -> Markup | None:
    """The same as a table, for those who do not see the charts."""
    if not run.records:
        return None
    columns = [(name, form) for name, form in _COLUMNS if any(name in record for record in run.records)]
    every = -(-len(run.records) // _MOST_ROWS)
    shown = [r for i, r in enumerate(run.records) if i % every == 0 or i == len(run.records) - 1]
    rows = [[(form(value) if (value := r.get(name)) is not None else "", value) for name, form in columns] for r in shown]
    heading = f"{counted(len(run.records), 'line')} of metrics.jsonl" + (f", every {every}th shown" if every > 1 else "")
    return tag("details", tag("summary", heading), table([(name.replace("_", " "), "n") for name, _ in columns], rows))
