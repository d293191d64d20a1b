from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from zerocfg.compose import Composed, compose
from zerocfg.diagnostics import in_order


class Project:
    """A user's project in an empty folder: conf/config.yaml and what a test adds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write("config.yaml", "defaults:\n  - zerocfg\n  - _self_\n")

    def write(self, name: str, text: str) -> Path:
        path = self.folder / "conf" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
        return path

    def compose(self, *overrides: str, name: str | None = None) -> Composed:
        return compose(overrides, config_path="conf", config_name=name)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(tmp_path)
    return Project(tmp_path)


@pytest.fixture
def told() -> Callable[[Composed], list[tuple[str, str, str, str]]]:
    """(code, path, decided by, hint) of every problem, in the order of a report."""

    def tell(composed: Composed) -> list[tuple[str, str, str, str]]:
        return [(d.code, d.path, d.decided_by, d.hint) for d in in_order(composed.diagnostics)]

    return tell
