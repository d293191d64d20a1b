"""zerocfg.compile: what the command compiles, for a script."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import zerocfg
from zerocfg.cli import main
from zerocfg.diagnostics import ConfigProblems


def test_what_the_command_prints(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["hardware=a100x4", "model=llama2_7b", "parallelism=zero2"]
    run = zerocfg.compile(words)
    assert main(["compile", *words, "--json"]) == 0
    assert run.as_dict() == json.loads(capsys.readouterr().out)
    assert type(run.deepspeed) is dict  # DeepSpeed takes no other mapping


def test_a_projects_own_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/config.yaml").write_text("defaults:\n  - zerocfg\n  - override hardware: a100x4\n  - _self_\noptimizer: {lr: 0.5}\n")
    with pytest.raises(ConfigProblems):  # of another folder
        zerocfg.compile(["hardware=a100x4"], config_path=str(tmp_path / "none"))
    assert zerocfg.compile(config_path=str(tmp_path / "conf")).deepspeed["optimizer"]["params"]["lr"] == 0.5
    monkeypatch.chdir(tmp_path)
    assert zerocfg.compile().deepspeed["optimizer"]["params"]["lr"] == 0.5


def test_all_problems_at_once() -> None:
    with pytest.raises(ConfigProblems) as caught:
        zerocfg.compile(
            ["hardware=a100x4", "parallelsm=zero2", "batch.global_batch_size=3", "precision=bf16", "offload=all", "parallelism=zero2"]
        )
    assert {found.code for found in caught.value.diagnostics} == {"ZC111", "ZC201", "ZC302"}
