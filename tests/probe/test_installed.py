from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from zerocfg.probe.installed import installed


@pytest.mark.parametrize("name", ["torch", "hydra-core", "Hydra_Core", "omegaconf", "typing-extensions", "nvidia-ml-py", "PyYAML"])
def test_the_same_as_importlib_says(name: str) -> None:
    assert installed(name) == version(name)


def test_nothing_for_what_is_not_there() -> None:
    assert installed("torc") == ""
    assert installed("torch-2") == ""


def test_the_first_on_the_path_counts_and_what_is_no_folder_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place, release in (("first", "9.1+local"), ("second", "8.0")):
        (tmp_path / place / f"some_package-{release}.dist-info").mkdir(parents=True)
    (tmp_path / "file.zip").write_bytes(b"")
    monkeypatch.setattr(
        sys, "path", [str(tmp_path / "missing"), str(tmp_path / "file.zip"), str(tmp_path / "first"), str(tmp_path / "second")]
    )
    assert installed("some-package") == "9.1+local"
