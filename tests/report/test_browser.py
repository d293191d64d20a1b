"""The pages in a real browser: no error, every mark drawn, nothing of the data becomes markup."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zerocfg.cli.report import report_command
from zerocfg.launch.sweep_results import SweepRow, write_results

MakeRun = Callable[..., Path]
Browse = Callable[[Path], Any]
pytestmark = pytest.mark.integration
SCRIPT = "document.documentElement.dataset.broken = 1"
HOSTILE = [
    f"</script><script>{SCRIPT}</script>",
    f"<img src=x onerror='{SCRIPT}'>",
    f'"><svg onload="{SCRIPT}">',
    f"]]></style><style></title><script>{SCRIPT}</script>",
    f"javascript:{SCRIPT}//\x00\x1b[31m\u202e",
]


def write(folder: Path) -> Path:
    assert report_command(str(folder)) == 0
    return folder / "report.html"


def test_a_run(make_run: MakeRun, browse: Browse, tmp_path: Path) -> None:
    found = {"communication_share": 0.3, "exposed_communication_share": 0.1, "resumed_at": [2]}
    page = browse(write(make_run(tmp_path / "runs" / "0", summary=found)))
    assert "data-error" not in page.root
    # loss, tokens/s, the whole step, forward, learning rate: 4 or 3 points each
    lines = [attrs["data-series"] for _, attrs in page.of_class("mark", "line")]
    assert lines == ["loss", "tokens/s", "the whole", "forward", "lr"]
    assert len(page.of_class("mark", "dot")) == 4 + 3 + 3 + 3 + 4
    # forward, backward, optimizer, data, between; three shares; memory: predicted parts and eight ranks
    hints = [attrs["data-hint"] for _, attrs in page.of_class("mark", "bar")]
    parts = [hint for hint in hints if hint.startswith("predicted: ")]
    assert 4 <= len(parts) <= 8
    assert len(hints) == 5 + 3 + len(parts) + 8
    assert "rank 7: measured: 5 GiB" in hints
    assert "a step: backward: 1 s (50.0% of 2 s)" in hints
    assert "a step: hidden collectives: 20.0% (20.0% of 100.0%)" in hints
    assert page.root["data-marks"] == str(len(lines) + 17 + len(hints))
    for shown in ("done", "1,000", "40.0%", "12 GiB", "parallelism=zero3", "--nproc-per-node=8", '"stage": 3', "resumed after step 2"):
        assert shown in page.text
    assert "25.0% above the prediction" in page.text
    # every picture says in words what it shows
    pictures = [attrs for tag, attrs in page.elements if tag == "svg" and attrs.get("role") == "img"]
    assert [bool(attrs["aria-label"]) for attrs in pictures] == [True] * 7


def test_a_sweep(make_run: MakeRun, browse: Browse, tmp_path: Path) -> None:
    rows = []
    for number, stage in enumerate((1, 2, 3)):
        words = [f"parallelism=zero{stage}", "train.steps=4"]
        folder = make_run(tmp_path / str(number), finished=number != 2, steps=4 - number, overrides=words)
        state = "failed" if number == 2 else "done"
        objective = None if number == 2 else 3.0 - number
        rows.append(SweepRow(job=number, state=state, overrides=" ".join(words), objective=objective, folder=str(folder)))
    (tmp_path / "2" / "rank_1.log").write_text("fine\nTraceback (most recent call last):\n  in main\nValueError: no <b>bold</b>\n")
    (tmp_path / "2" / "rank_0.log").write_text("nothing to say\n")
    write_results(tmp_path, [*rows, SweepRow(job=3, state="infeasible", overrides="parallelism=zero9 train.steps=4")])
    page = browse(write(tmp_path))
    assert "data-error" not in page.root
    assert [attrs["data-series"] for _, attrs in page.of_class("mark", "line")] == ["job 0", "job 1", "job 2"]
    assert len(page.of_class("mark", "dot")) == 4 + 3 + 2
    assert len(page.of_class("mark", "bar")) == 3 + 3 + 3 * 5
    states = [attrs["class"] for _, attrs in page.of_class("state")]
    assert states.count("state done") == 1 + 2
    assert states.count("state failed") == 2 + 2
    for shown in (
        "2 done",
        "1 failed",
        "1 infeasible",
        "lowest objective",
        "ValueError: no <b>bold</b>",
        "rank_1.log",
        "parallelism=zero9",
    ):
        assert shown in page.text
    assert "nothing to say" not in page.text
    # what all jobs have is said once
    assert page.text.count("train.steps=4") == 1


def test_nothing_of_the_data_becomes_markup(make_run: MakeRun, browse: Browse, tmp_path: Path) -> None:
    for number in range(2):
        name = f"{number} <script>{SCRIPT.replace('/', '')}<"
        summary = {"profile_trace": HOSTILE[0], "communication_share": 0.5}
        folder = make_run(tmp_path / name, finished=False, overrides=HOSTILE, summary=summary)
        (folder / "rank_0.log").write_text("\n".join(HOSTILE))
        ds_config = folder / "compiled" / "ds_config.json"
        ds_config.write_text(ds_config.read_text().replace('"AdamW"', '"</pre><script>' + SCRIPT + '</script>"'))
    alone = browse(write(folder))
    both = browse(write(tmp_path))
    for page in (alone, both):
        assert "data-broken" not in page.root
        assert "data-error" not in page.root
        assert "data-marks" in page.root
        assert [tag for tag, _ in page.elements].count("script") == 1
        assert not [attrs for _, attrs in page.elements if any(name.startswith("on") for name in attrs)]
        assert not [tag for tag, _ in page.elements if tag in ("img", "iframe", "object", "link", "base")]
        for text in HOSTILE[:4]:
            assert text in page.text
        assert not re.search(r"[\x00\x1b\u202e]", page.text)


def test_values_under_the_pointer_and_sorting(make_run: MakeRun, browse: Browse, tmp_path: Path) -> None:
    """The page's own policy lets no other script run, so that the copy here has none."""
    rows = [
        SweepRow(job=n, state="done", overrides=f"a={n}", objective=(5.0, 11.0, 2.0)[n], folder=str(make_run(tmp_path / str(n))))
        for n in range(3)
    ]
    write_results(tmp_path, rows)
    text = write(tmp_path).read_text()
    script = """{
    const svg = document.querySelector("svg[data-chart]"), box = svg.getBoundingClientRect();
    svg.dispatchEvent(new PointerEvent("pointermove", {clientX: box.left + box.width * 0.99, clientY: box.top + 40, bubbles: true}));
    const keep = (name, value) => { document.documentElement.dataset[name] = value; };
    keep("tip", [...svg.closest("figure").querySelector(".tip").children].map((line) => line.textContent).join("|"));
    const heads = [...document.querySelectorAll("table.sortable th")];
    const order = () => [...document.querySelectorAll("table.sortable tbody tr")].map((row) => row.cells[0].textContent).join("");
    const objective = heads.find((head) => head.textContent === "objective");
    objective.querySelector("button").click();
    keep("up", order());
    objective.querySelector("button").click();
    keep("down", order() + objective.getAttribute("aria-sort"));
    document.querySelector(".legend li[data-series]").dispatchEvent(new PointerEvent("pointerenter"));
    keep("faded", document.querySelectorAll("path.faded").length);
    svg.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowLeft"}));
    keep("keyed", svg.closest("figure").querySelector(".tip").firstChild.textContent);
    }"""
    copy = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text).replace("</body>", f"<script>{script}</script></body>")
    (tmp_path / "copy.html").write_text(copy)
    root = browse(tmp_path / "copy.html").root
    assert "data-error" not in root
    assert root["data-tip"] == "step 4|job 0: 3.6|job 1: 3.6|job 2: 3.6"
    assert (root["data-up"], root["data-down"]) == ("201", "102descending")
    assert root["data-faded"] == "2"
    assert root["data-keyed"] == "step 3"
    # with the policy the same script does nothing
    (tmp_path / "copy.html").write_text(text.replace("</body>", f"<script>{script}</script></body>"))
    assert "data-tip" not in browse(tmp_path / "copy.html").root
