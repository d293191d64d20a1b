"""A secret of the config's env is on no screen and in no file; what a run does with it: tests/integration/test_secrets.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from zerocfg.cli import main

SECRET = "s3cr3t-v4lue"


@pytest.mark.parametrize(
    "words",
    [
        ["compile"],
        ["compile", "--json"],
        ["compile", "--out", "out"],
        ["explain"],
        ["explain", "env"],
        ["check", "--json"],
        ["check", "batch.micro_batch_size=0"],
        ["check", "optimizer.leraning_rate=1"],
        ["doctor", "--json"],
    ],
)
@pytest.mark.parametrize("override", [f"+env.HF_TOKEN={SECRET}", f"+env={{HF_TOKEN: {SECRET}, A: b}}", f"env.HF_TOKEN={SECRET}"])
def test_no_command_shows_or_writes_a_secret(
    tmp_path: Path, words: list[str], override: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    main([*words, "hardware=cpu", override])
    out, err = capfd.readouterr()
    assert out + err != ""
    assert SECRET not in out + err
    assert "Traceback" not in err
    assert [path for path in tmp_path.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()] == []
