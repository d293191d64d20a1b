"""Strings that a shell, YAML, Hydra or a terminal could take for something: nothing runs, nothing is written, no traceback."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

NASTY = [
    "model.name=$(rm -rf x)",
    "model.name=`touch owned`",
    "model.name=; touch owned",
    "model.name=a b",
    "model.name=it's",
    'model.name="',
    "model.name=a\nb",
    "model.name=\t",
    "model.name=${oc.env:HOME}",
    "model.name=${now:%Y}",
    "model.name=${",
    "model.name=\x1b[31mred",
    "model.name=" + "x" * 5000,
    "model.name=ünïcödé",
    "+env.X=$(touch owned)",
    "+env.X='$(touch owned)'",
    "+env.X='a\nb'",
    "model.hf_config=/nowhere/a b/it's",
    "model.hf_config='a\nb'",
    "=",
    "==",
    "=x",
    "",
    " ",
    ".",
    "..=x",
    ".=x",
    "a..b=x",
    "parallelism=../../etc/passwd",
    "parallelism=/etc/passwd",
    "parallelism=''",
    "parallelism=",
    "parallelism=null",
    "parallelism=true",
    "parallelism={}",
    "parallelism=[]",
    "parallelism=[zero1,zero2]",
    "parallelism@x=zero1",
    "+parallelism@x=zero1",
    "~parallelism",
    "~hydra",
    "~train",
    "train=3",
    "train=null",
    "train={}",
    "train={steps: {a: 1}}",
    "train.steps={a: 1}",
    "train.steps=1e400",
    "train.steps=-1",
    "train.steps=" + "9" * 400,
    "optimizer.betas=[]",
    "optimizer.betas=[[1]]",
    "deepspeed=3",
    "deepspeed=[1]",
    "env=3",
    "+env.='x'",
    "hydra=3",
    "hydra.job.num=x",
    "hydra.sweep.dir=null",
    "hydra.searchpath=[nowhere]",
    "hydra.searchpath=3",
    "hydra/launcher=nothing",
    "defaults=[a]",
    "+defaults=[a]",
    "model.hf_config=.",
    "model.hf_config=/dev/null",
    "hardware.num_nodes=true",
]


@pytest.mark.parametrize("override", NASTY, ids=[repr(o[:40]) for o in NASTY])
def test_any_override_ends_in_a_product_or_a_report(cli: Any, tmp_path: Path, override: str) -> None:
    (tmp_path / "x").mkdir()
    status, out, err = cli("compile", "hardware=a100x4", override, "--json")
    told = json.loads(out)
    if status == 0:
        assert set(told) == {"deepspeed", "torchrun", "environment", "resources"}
    else:
        assert status == 1
        assert told
        assert all(d["code"].startswith("ZC") and d["message"] for d in told)
        assert err.count("\n") >= 2
    assert "Traceback" not in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x"]


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["compile", "hardware=a100x4", "model.name=$(rm -rf x)", "--json"], 1),
        (["compile", "hardware=a100x4", "model.name='$(rm -rf x)'", "--json"], 0),
        (["compile", "hardware=a100x4", "+env.X='`touch owned`; touch owned\n touch owned'", "--json"], 0),
        (["compile", "hardware=a100x4", "--json", "--", "-x=3"], 1),
        (["compile", "hardware=a100x4", "--json", b"model.name=\xff\xfe"], 1),
        (["check", "hardware=a100x4", b"--config-path=\xff"], 1),
        (["check", "--config-path", "a b\n'$(touch owned)'"], 1),
    ],
)
def test_in_a_process_of_its_own(process: Any, tmp_path: Path, words: list[str | bytes], status: int) -> None:
    (tmp_path / "x").mkdir()
    done: subprocess.CompletedProcess[str] = process(*words)
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    if "--json" in words:
        json.loads(done.stdout)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x"]


def test_a_value_that_looks_like_a_command_is_text_all_the_way(process: Any, tmp_path: Path) -> None:
    text = '$(touch owned) `touch owned` "quoted" it\'s\n--end'
    quoted = text.replace("'", "\\'")
    done = process("compile", "hardware=a100x4", f"+env.NOTE='{quoted}'", "--json", "--out", "there")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["environment"]["NOTE"] == text
    stored = json.loads((tmp_path / "there" / "compiled" / "environment.json").read_text())
    assert stored["NOTE"] == text
    script = tmp_path / "there" / "compiled" / "launch.sh"
    # only the lines that set the environment are run
    exports = script.read_text().split("exec ")[0]
    shown = subprocess.run(
        ["sh", "-c", f'{exports}\nprintf %s "$NOTE"', str(script), "train.py"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert shown.stdout == text
    assert not list(tmp_path.rglob("owned"))
