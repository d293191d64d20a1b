"""Whole outputs: what is run, and why each value is what it is. `pytest tests/golden --update-golden` rewrites them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from zerocfg.artifact import CompiledRun
from zerocfg.diagnostics import render_report


def test_whole_output(
    golden: str, compile_golden: Callable[[str], CompiledRun], runs: dict[str, str], folder: Path, update_golden: bool
) -> None:
    run = compile_golden(golden)
    written = {
        f"{golden}.json": json.dumps(run.as_dict(), indent=2) + "\n",
        f"{golden}.txt": "\n".join(
            [f"# zerocfg explain {runs[golden]}", *(entry.render() for entry in run.provenance.values()), render_report(run.diagnostics)]
        ).rstrip()
        + "\n",
    }
    for name, text in written.items():
        path = folder / name
        if update_golden:
            path.write_text(text, encoding="utf-8")
        assert path.is_file(), f"{name} is missing: pytest tests/golden --update-golden writes it"
        assert text == path.read_text(encoding="utf-8")


def test_no_golden_file_is_left_over(runs: dict[str, str], folder: Path) -> None:
    files = {path.name for path in folder.iterdir() if path.suffix in (".json", ".txt")}
    assert files == {f"{name}{suffix}" for name in runs for suffix in (".json", ".txt")}
