"""Usage, help, version, completion; and that the quick way and typer's are the same command line."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer

from zerocfg import __version__
from zerocfg.cli import app, completion, quick
from zerocfg.cli import check as check_module
from zerocfg.cli import compile as compile_module
from zerocfg.cli import explain as explain_module
from zerocfg.cli.pages import ORDER


@pytest.mark.parametrize(
    "words",
    [
        ["compile", "--jsn"],
        ["compile", "-x=3"],
        ["compile", "--out"],
        ["compile", "--json=yes"],
        ["check", "--out", "x"],
        ["explain", "--json"],
        ["nothing"],
        ["init", "a", "b"],
        [],
    ],
)
def test_wrong_usage_is_status_2(cli: Any, words: list[str]) -> None:
    status, out, err = cli(*words)
    assert status == 2
    assert "Usage: zerocfg" in out + err or err.startswith("Error: Option '--")
    assert "Traceback" not in err


@pytest.mark.parametrize("command", ["", *ORDER, "bench comm"])
def test_a_help_page_fits_a_narrow_terminal(cli: Any, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    status, out, err = cli(*command.split(), "--help")
    assert (status, err) == (0, "")
    usage, *page = out.splitlines()
    assert usage.startswith(f"Usage: zerocfg {command}")
    assert [line for line in page if len(line) > 80 or line.endswith("...") or "<str>" in line or "<list" in line] == []


def test_the_commands_stand_in_the_readmes_order(cli: Any) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    cells = re.findall(r"^\| (`zerocfg .*?) \|(.*)\|$", readme, flags=re.M)
    named = [name for first, second in cells for name in re.findall(r"`(?:zerocfg )?([a-z]+)\b[^`]*`", first + second)]
    assert [name for name in dict.fromkeys(named) if name in ORDER] == list(ORDER)
    shown = cli("--help")[1].partition("Commands:\n")[2]
    assert tuple(line.split()[0] for line in shown.splitlines()) == ORDER


def test_version(cli: Any) -> None:
    assert cli("--version") == (0, f"zerocfg {__version__}\n", "")


LINES = [
    ["compile"],
    ["compile", "a=b", "--json", "c=d"],
    ["compile", "--out", "x y", "a=b", "--force"],
    ["compile", "--target", "slurm", "a=b"],
    ["compile", "--out=x=y", "--config-path=p", "--config-name", "n", "--", "-a=b"],
    ["compile", "a=", "~b", "+c=d", "e='f g'", "", " "],
    ["check", "--json", "a=b"],
    ["check", "--config-path", "", "a=b"],
    ["check", "a=--json"],
    ["explain", "key", "a=b"],
    ["explain", "--config-name=n", "~b", "key"],
]


@pytest.mark.parametrize("words", LINES, ids=" ".join)
def test_the_quick_way_reads_a_line_as_typer_does(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def record(*given: Any, **options: Any) -> int:
        seen.append(([*given[0]], {name: value for name, value in options.items() if value not in (None, False)}))  # type: ignore[arg-type]
        return 5

    for module, name in ((compile_module, "compile_command"), (check_module, "check_command"), (explain_module, "explain_command")):
        monkeypatch.setattr(module, name, record)
    status = quick.quick(words)
    assert app.run(words) == 5
    if "--" in words:
        assert status is None
        assert seen == [(["-a=b"], {"out": "x=y", "config_path": "p", "config_name": "n"})]
    else:
        assert status == 5
        assert seen[0] == seen[1]


@pytest.mark.parametrize(
    "words", [["compile", "--jsn"], ["compile", "--out"], ["compile", "--out", "--json"], ["compile", "--help"], ["init"], []]
)
def test_what_is_not_plain_is_left_to_typer(words: list[str]) -> None:
    assert quick.quick(words) is None


def test_both_know_the_same_options() -> None:
    commands = typer.main.get_command(app.app).commands  # type: ignore[attr-defined]
    assert set(commands) == set(ORDER)
    for name, options in quick.OPTIONS.items():
        theirs = {option for parameter in commands[name].params for option in parameter.opts if option.startswith("--")}
        assert theirs - {"--help"} == set(options)


@pytest.mark.parametrize(
    ("before", "incomplete", "expected"),
    [
        ([], "parallelism=ze", ["parallelism=zero1", "parallelism=zero2", "parallelism=zero3", "parallelism=zeropp"]),
        ([], "+model=llama2", ["+model=llama2_13b", "+model=llama2_7b"]),
        ([], "para", ["parallelism="]),
        ([], "optimizer.b", ["optimizer.betas=", "optimizer.bias_correction="]),
        (["zerocfg", "compile", "parallelism", "="], "zerop", ["zeropp"]),
        (["zerocfg", "compile", "scheduler", "="], "", ["none", "one_cycle", "warmup_cosine", "warmup_decay", "warmup_lr"]),
        ([], "nothing=", []),
        ([], "../../etc=", []),
    ],
)
def test_completion_of_overrides(before: list[str], incomplete: str, expected: list[str]) -> None:
    assert completion.candidates(before, incomplete) == expected


@pytest.mark.parametrize(
    ("line", "place", "expected"),
    [
        ("zerocfg comp", "1", "compile"),
        ("zerocfg check parallelism=zerop", "2", "parallelism=zeropp"),
        ("zerocfg check parallelism = zerop", "4", "zeropp"),
    ],
)
def test_completion_as_bash_asks_for_it(process: Any, line: str, place: str, expected: str) -> None:
    done: subprocess.CompletedProcess[str] = process(_ZEROCFG_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=place)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, [expected], "")


def test_a_reader_that_has_enough_is_no_failure_of_ours(tmp_path: Any) -> None:
    import sys

    code = f"{sys.executable} -m zerocfg explain hardware=a100x4 | head -n 1"
    done = subprocess.run(["sh", "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.stderr == ""
    assert done.stdout.startswith("train_batch_size = ")
