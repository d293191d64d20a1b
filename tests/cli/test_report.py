"""zerocfg report on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from zerocfg.cli import main


@pytest.fixture
def job(tmp_path: Path) -> Path:
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "metrics.jsonl").write_text('{"step": 1, "loss": 2.5}\n')
    return folder


def test_it_writes_one_file_and_says_where(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(job)]) == 0
    assert capsys.readouterr().out == f"{job}/report.html\n"
    page = (job / "report.html").read_text()
    assert page.startswith("<!doctype html>\n<html")
    # nothing is loaded from anywhere
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
    assert main(["report", str(job), "--out", str(job / "other.html")]) == 0
    assert (job / "other.html").read_text() == page
    assert sorted(p.name for p in job.iterdir()) == ["metrics.jsonl", "other.html", "report.html"]


def test_open(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert main(["report", str(job), "--open"]) == 0
    assert opened == [(job / "report.html").as_uri()]


def test_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    for name, why in (("gone", "there is no such folder"), ("file", "it is no folder"), ("", "no job has left anything in it")):
        assert main(["report", str(tmp_path / name)]) == 1
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith(f"error[ZC184] {tmp_path / name} is neither a run nor a sweep: {why}\n")


def test_where_nothing_can_be_written(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(job), "--out", str(job / "no" / "such" / "page.html")]) == 1
    assert capsys.readouterr().err == (
        f"error[ZC185] {job}/no/such/page.html cannot be written: No such file or directory\n"
        "  try: --out FILE in a folder that can be written\n\n1 error\n"
    )


def test_into_a_folder(job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(job), "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"{tmp_path}/report.html\n"
