"""zerocfg import: files that cannot be read, and the experiment that is written; nothing is overwritten or executed."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.cli.importing import CONFIG, write_config
from zerocfg.compose import compose
from zerocfg.deepspeed.importer import import_config


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_config(tmp_path)


BAD = [
    ("a file that is not there", None, "ZC910", ":1:1: cannot be read: No such file or directory"),
    ("a folder", "", "ZC910", ":1:1: cannot be read: Is a directory"),
    ("empty", b"", "ZC910", ":1:1: the file is empty"),
    ("a byte order mark", b"\xef\xbb\xbf{}", "ZC910", ":1:1: the file starts with a byte order mark"),
    ("50 MB", b" " * (50 * 2**20), "ZC910", ":1:1: more than 1048576 bytes: too large for a config"),
    ("yaml", b"fp16:\n  enabled: true\n", "ZC911", ":1:1: not JSON: this looks like YAML"),
    ("duplicate", b'{"a": 1,\n "a": 2}', "ZC912", ":2:2: the key 'a' stands twice in one object"),
    ("nan", b'{"a": NaN}', "ZC913", ":1:7: NaN is no number to train with"),
    ("infinity", b'{"a":\n -Infinity}', "ZC913", ":2:2: -Infinity is no number to train with"),
    ("deep", b'{"a":' * 5000 + b"1" + b"}" * 5000, "ZC914", ":1:161: more than 32 levels of nesting"),
    ("template", b'{"a": BATCH_SIZE,\n"b": 1}', "ZC915", ":1:7: 'BATCH_SIZE,' without quotes is a place still to be filled in"),
]


@pytest.mark.parametrize(("name", "data", "code", "message"), BAD, ids=[name for name, *_ in BAD])
def test_a_bad_file_is_one_error_with_its_place(
    cli: Any, tmp_path: Path, name: str, data: bytes | str | None, code: str, message: str
) -> None:
    path = tmp_path / f"{name}.json"
    if isinstance(data, bytes):
        path.write_bytes(data)
    elif data is not None:
        path.mkdir()
    status, out, err = cli("import", str(path), "--write", "conf/experiment/x.yaml")
    assert (status, out) == (1, "")
    assert err.splitlines()[0] == f"error[{code}] {path}{message}"
    assert err.count("error[") == 1
    assert not (tmp_path / "conf").exists()


def test_a_path_with_a_zero_byte_is_an_error_not_a_traceback(cli: Any) -> None:
    status, _, err = cli("import", "a\0b.json")
    assert status == 1
    assert err.startswith("error[ZC910]")


WRITTEN = """\
# @package _global_
# From my config.json, by zerocfg import.
defaults:
  - override /model: none
  - override /parallelism: zero2
  - override /offload: none
  - override /precision: bf16
  - override /activation_checkpointing: none
  - override /optimizer: none
  - override /scheduler: none

batch:
  global_batch_size: 8
  gradient_accumulation_steps: 1

parallelism:
  overlap_comm: true

optimizer:
  gradient_clipping: 1.0

deepspeed:
  steps_per_print: 10
  csv_monitor:
    enabled: true
    job_name: "a b"
"""


def test_an_experiment_file_says_the_same_as_the_overrides(cli: Any, file: Path, tmp_path: Path) -> None:
    assert cli("init", ".")[0] == 0
    status, _, err = cli("import", str(file), "--write", "conf/experiment/old.yaml")
    assert status == 0
    assert err.endswith("written to conf/experiment/old.yaml: python train.py +experiment=old\n")
    assert (tmp_path / "conf/experiment/old.yaml").read_text() == WRITTEN
    by_file = compose(["hardware=a100x8", "+experiment=old"], config_path="conf")
    by_line = compose(["hardware=a100x8", *import_config(CONFIG).overrides], config_path="conf")
    assert by_file.diagnostics == by_line.diagnostics == []
    assert by_file.container == by_line.container


@pytest.mark.integration
def test_an_unmodified_hydra_app_takes_the_experiment(cli: Any, file: Path, tmp_path: Path) -> None:
    assert cli("init", ".")[0] == 0
    assert cli("import", str(file), "--write", "conf/experiment/old.yaml")[0] == 0
    (tmp_path / "app.py").write_text(
        textwrap.dedent("""\
        import json, hydra
        from omegaconf import OmegaConf
        @hydra.main(config_path="conf", config_name="config", version_base=None)
        def main(cfg):
            print(json.dumps(OmegaConf.to_container(cfg.deepspeed)), cfg.batch.global_batch_size, cfg.parallelism.name)
        main()
        """)
    )
    words = [sys.executable, "app.py", "+experiment=old", "hydra.mode=RUN", "hardware=cpu"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.stderr == ""
    assert done.stdout == '{"steps_per_print": 10, "csv_monitor": {"enabled": true, "job_name": "a b"}} 8 zero2\n'


def test_an_experiment_is_never_overwritten_without_force(cli: Any, file: Path, tmp_path: Path) -> None:
    target = tmp_path / "conf/experiment/x.yaml"
    target.parent.mkdir(parents=True)
    target.write_text("mine: 1\n")
    status, out, err = cli("import", str(file), "--write", str(target))
    assert (status, out) == (1, "")
    assert err.startswith(f"error[ZC931] {target} holds something else")
    assert target.read_text() == "mine: 1\n"
    assert cli("import", str(file), "--write", str(target), "--force")[0] == 0
    assert target.read_text() == WRITTEN
    assert cli("import", str(file), "--write", str(target))[0] == 0  # the same again is no loss
    assert [path.name for path in target.parent.iterdir()] == ["x.yaml"]


def test_a_link_is_replaced_only_with_force_and_never_followed(cli: Any, file: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.yaml"
    elsewhere.write_text("mine: 1\n")
    target = tmp_path / "conf/experiment/x.yaml"
    target.parent.mkdir(parents=True)
    target.symlink_to(elsewhere)
    assert cli("import", str(file), "--write", str(target))[0] == 1
    assert cli("import", str(file), "--write", str(target), "--force")[0] == 0
    assert elsewhere.read_text() == "mine: 1\n"
    assert not target.is_symlink()


def test_a_file_where_a_folder_is_needed(cli: Any, file: Path, tmp_path: Path) -> None:
    (tmp_path / "conf").write_text("")
    status, _, err = cli("import", str(file), "--write", "conf/experiment/x.yaml")
    assert (status, err.splitlines()[0]) == (1, "error[ZC931] --write conf/experiment/x.yaml: Not a directory")
