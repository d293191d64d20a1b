"""What the pages say is so: generated pages are up to date, and every command shown can be typed."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from zerocfg.cli import main

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# compiled, not run: these start ranks, write files or need a file of the reader's own
TRAIN = re.compile(r"^(?:\$ )?python train\.py (.*)$")
SHOW = re.compile(r"^(?:\$ )?zerocfg (compile|check|explain|memory|plan) ?(.*)$")
# a command after a prompt, and what it prints
SESSION = re.compile(r"^\$ zerocfg (.*)\n((?:(?!\$ |```).*\n)+)", flags=re.M)


def commands() -> list[tuple[str, str, str]]:
    """(page, command, the comment behind it)."""
    found = []
    for page in PAGES:
        for block in re.findall(r"^```(?:\w*)\n(.*?)^```", page.read_text(), flags=re.S | re.M):
            for line in block.replace("\\\n", " ").splitlines():
                if TRAIN.match(line) or SHOW.match(line):
                    command, _, remark = line.removeprefix("$ ").partition("   #")
                    found.append((str(page.relative_to(ROOT)), command.strip(), remark.strip()))
    return found


def test_the_generated_pages_are_up_to_date() -> None:
    done = subprocess.run([sys.executable, "docs/generate.py", "--check"], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("page", "line", "remark"), commands(), ids=lambda text: text[:70])
def test_a_command_of_the_docs_can_be_typed(
    page: str, line: str, remark: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    if shown := SHOW.match(line):
        words = [shown[1], *shlex.split(shown[2])]
        if "--out" in words:  # nothing is written outside of the test's folder
            words[words.index("--out") + 1] = str(tmp_path)
        expected = (1,) if remark == "exit status 1" else (0, 1) if shown[1] == "check" else (0,)
    else:
        train = TRAIN.match(line)
        assert train is not None
        # a launcher and a sweep are for the launcher; every point of a sweep is judged by itself
        words = ["check", *(w.partition(",")[0] for w in shlex.split(train[1]) if w != "-m" and not w.startswith("hydra"))]
        expected = (0,)
    status = main(words)
    assert status in expected, f"{page}: {line}\n{capsys.readouterr()}"


@pytest.mark.parametrize(("line", "shown"), SESSION.findall("".join(page.read_text() for page in PAGES)))
def test_a_command_prints_what_the_page_shows(line: str, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(shlex.split(line))
    printed = capsys.readouterr()
    assert printed.err + printed.out == shown


def test_what_a_cluster_needs_is_an_option_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs/how-to/slurm.md").read_text()
    (block,) = re.findall(r"`conf/cluster/mine.yaml`.*?^```yaml\n(.*?)^```", page, flags=re.S | re.M)
    (tmp_path / "conf/cluster").mkdir(parents=True)
    (tmp_path / "conf/cluster/mine.yaml").write_text(block)
    (tmp_path / "conf/config.yaml").write_text("defaults:\n  - zerocfg\n  - _self_\n")
    assert main(["check", "hardware=cpu"]) == 0
    assert main(["check", "+cluster=mine", "hardware=cpu"]) == 0
    assert main(["compile", "--target", "slurm", "+cluster=mine", "hardware=a100x4"]) == 0
    printed = capsys.readouterr().out
    assert all(text in printed for text in ("--partition=gpu", "--account=my_project", "--mail-type=END", "module load", "--mpi=none"))


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"
