"""Folders as runs leave them, and a real browser."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.needs import require
from zerocfg.compiler import compile_run
from zerocfg.emit import COMPILED, write_compiled

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
GIB = 2**30


@pytest.fixture
def make_run(container: Callable[..., dict[str, Any]]) -> Callable[..., Path]:
    """make_run(folder, steps=4, finished=True, changes={...}, overrides=[...], summary={...}) -> folder"""

    def make(
        folder: Path,
        *,
        steps: int = 4,
        finished: bool | None = True,
        changes: Mapping[str, Any] | None = None,
        overrides: Sequence[str] = ("parallelism=zero3",),
        summary: Mapping[str, Any] | None = None,
    ) -> Path:
        compiled = compile_run(container(dict(changes or {})))
        write_compiled(compiled, folder / COMPILED)
        (folder / ".hydra").mkdir()
        (folder / ".hydra" / "overrides.yaml").write_text("".join(f"- {json.dumps(word)}\n" for word in overrides))
        records = [record(step) for step in range(1, steps + 1)]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in records))
        if finished is not None:
            told = {
                "steps": steps,
                "planned_steps": 4,
                "first_loss": 4.0,
                "last_loss": records[-1]["loss"],
                "tokens_per_s": 1000.0,
                "tokens_per_s_per_gpu": 125.0,
                "mfu": 0.4,
                "step_seconds": 2.0,
                "forward_seconds": 0.5,
                "backward_seconds": 1.0,
                "optimizer_seconds": 0.25,
                "data_seconds": 0.05,
                "peak_memory_bytes": 12 * GIB,
                "peak_memory_bytes_by_rank": [(12 - rank) * GIB for rank in range(compiled.plan.topology.world_size)],
                "predicted_tokens_per_s": 800.0,
                "predicted_peak_memory_bytes": 16 * GIB,
                "seconds": 8.0,
                "checkpoint_seconds": 0.0,
                "resumed_at": [],
                "finished": finished,
            }
            (folder / "summary.json").write_text(json.dumps({**told, **(summary or {})}))
        return folder

    return make


def record(step: int) -> dict[str, Any]:
    first = step == 1
    timed = {"tokens_per_s": None} if first else {"tokens_per_s": 1000.0 + step, "step_seconds": 2.0, "forward_seconds": 0.5}
    return {
        "step": step,
        "loss": 4.0 - step / 10,
        "lr": step / 1000,
        **timed,
        "memory_bytes": 12 * GIB,
        "seconds": 2.0 * step,
        "time": 1.7e9,
    }


class Page(HTMLParser):
    """What a browser made of a page: elements with their attributes and the text in them."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag in ("script", "style"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._open and self._open[-1] == tag:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        if not self._open:
            self.text += f"{data}\n"

    def of_class(self, *names: str) -> list[tuple[str, dict[str, str]]]:
        return [(tag, attrs) for tag, attrs in self.elements if set(names) <= set(attrs.get("class", "").split())]

    @property
    def root(self) -> dict[str, str]:
        return next(attrs for tag, attrs in self.elements if tag == "html")


@pytest.fixture(scope="session")
def browse(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Page]:
    """Open a file, let its script run, and give what the page became."""
    program = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    require(None if program else "no browser here: .ci/browser_package.sh installs one", os.environ)
    assert program is not None
    profile = tmp_path_factory.mktemp("browser")

    def look(file: Path) -> Page:
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1400,2000"]
        # without a network, so that a page that loads anything would show
        options += [f"--user-data-dir={profile}", "--proxy-server=127.0.0.1:9", "--virtual-time-budget=3000", "--dump-dom"]
        done = subprocess.run([program, *options, file.resolve().as_uri()], capture_output=True, text=True, timeout=120, check=False)
        assert "<html" in done.stdout, done.stderr
        return Page(done.stdout)

    return look
