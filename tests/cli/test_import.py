"""zerocfg import: what is printed, what is written, and that nothing is overwritten or executed."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from zerocfg.cli import import_
from zerocfg.compose import compose
from zerocfg.deepspeed.importer import import_config
from zerocfg.diagnostics import Diagnostic

CONFIG: dict[str, Any] = {
    "train_batch_size": 8,
    "bf16": {"enabled": True},
    "zero_optimization": {"stage": 2, "overlap_comm": True},
    "gradient_clipping": 1.0,
    "max_grad_norm": 1.0,
    "steps_per_print": 10,
    "csv_monitor": {"enabled": True, "job_name": "a b"},
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "my config.json"
    path.write_text(json.dumps(CONFIG))
    return path


PRINTED = """\
[overrides]
model=none
parallelism=zero2
offload=none
precision=bf16
activation_checkpointing=none
optimizer=none
scheduler=none
batch.global_batch_size=8
batch.gradient_accumulation_steps=1
parallelism.overlap_comm=true
optimizer.gradient_clipping=1.0
+deepspeed.steps_per_print=10
+deepspeed.csv_monitor.enabled=true
'+deepspeed.csv_monitor.job_name="a b"'

[deepspeed]
{
  "steps_per_print": 10,
  "csv_monitor": {
    "enabled": true,
    "job_name": "a b"
  }
}

[report]
expressed         train_batch_size = 8                   batch.global_batch_size
expressed         bf16.enabled = true                    precision=bf16
expressed         zero_optimization.stage = 2            parallelism=zero2
expressed         zero_optimization.overlap_comm = true  parallelism.overlap_comm
expressed         gradient_clipping = 1.0                optimizer.gradient_clipping
refused    ZC610  max_grad_norm = 1.0                    is no key of DeepSpeed: ignored in silence; max_grad_norm is an argument of \
the training script (Hugging Face); try: use gradient_clipping
kept              steps_per_print = 10                   no group says it; under deepspeed
kept              csv_monitor.enabled = true             no group says it; under deepspeed
kept              csv_monitor.job_name = "a b"           no group says it; under deepspeed

[world sizes]
1, 2, 4, 8
"""


def test_what_is_printed(cli: Any, file: Path) -> None:
    assert cli("import", str(file)) == (0, PRINTED, "9 keys: 5 expressed, 3 kept, 1 refused\n")


def test_the_overrides_can_be_pasted(cli: Any, file: Path) -> None:
    out = cli("import", str(file))[1]
    lines = out.partition("[overrides]\n")[2].partition("\n\n")[0]
    pasted = shlex.split(lines.replace("\n", " "))
    assert pasted == import_config(CONFIG).overrides
    status, compiled, _ = cli("compile", "hardware=a100x8", *pasted, "--json")
    assert status == 0
    assert json.loads(compiled)["deepspeed"]["csv_monitor"] == {"enabled": True, "job_name": "a b"}


def test_json_has_exactly_these_keys(cli: Any, file: Path) -> None:
    status, out, _ = cli("import", str(file), "--json")
    told = json.loads(out)
    assert status == 0
    assert told == import_config(CONFIG).as_dict()
    assert list(told) == ["overrides", "kept", "entries", "world_sizes"]
    assert {tuple(entry) for entry in told["entries"]} == {("path", "outcome", "code", "reason", "value")}


def test_options_and_arguments_may_stand_in_any_order(cli: Any, file: Path, tmp_path: Path) -> None:
    auto = tmp_path / "auto.json"
    auto.write_text('{"train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": "auto"}}')
    wanted = import_config(
        {"train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": "auto"}},
        arguments=["--per_device_train_batch_size", "4", "--bf16", "--num_gpus", "2"],
        world_size=2,
        model={"model": "llama2_7b"},
    ).as_dict()
    lines = [
        "import auto.json --per_device_train_batch_size 4 --bf16 --num_gpus 2 --world-size 2 --model llama2_7b --json",
        "import --json --world-size=2 --model llama2_7b auto.json --bf16 --num_gpus=2 --per_device_train_batch_size=4",
        "import auto.json --world-size 2 --bf16 --json --model=llama2_7b -- --num_gpus 2 --per_device_train_batch_size 4",
        "import --json auto.json --model llama2_7b --world-size 2 -- deepspeed --num_gpus 2 x.py --bf16 --per_device_train_batch_size 4",
    ]
    for line in lines:
        status, out, _ = cli(*line.split())
        assert (status, json.loads(out)) == (0, wanted), line


def test_the_scripts_own_arguments_are_noted_after_the_dashes(cli: Any, file: Path) -> None:
    status, _, err = cli("import", str(file), "--", "train.py", "--output_dir", "out")
    assert status == 0
    assert [line for line in err.splitlines() if line.startswith("note[ZC921]")] == [
        "note[ZC921] left to the script, as no DeepSpeed value follows from it: train.py, --output_dir",
    ]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--output_dir", "out"], "ZC920"),
        (["--per_device_train_batch_size", "many"], "ZC920"),
        (["--max_grad_norm", "0.5"], "ZC922"),
        (["--num_gpus", "4", "--world-size", "8"], "ZC923"),
        (["--model", "llama2_7c"], "ZC930"),
        (["--write", "here.yaml"], "ZC931"),
        (["--write", "conf/experiment/x.yml"], "ZC931"),
    ],
)
def test_one_error_and_nothing_else(cli: Any, file: Path, tmp_path: Path, words: list[str], code: str) -> None:
    before = sorted(tmp_path.rglob("*"))
    status, out, err = cli("import", str(file), *words)
    assert (status, out) == (1, "")
    assert err.startswith(f"error[{code}] ")
    assert err.endswith("\n1 error\n")
    status, out, _ = cli("import", str(file), *words, "--json")
    assert status == 1
    assert [problem["code"] for problem in json.loads(out)] == [code]
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("words", [["--world-size", "0"], ["--world-size", "two"], ["--world-size"], ["--model"], ["--write", "--json"]])
def test_wrong_usage_is_status_2(cli: Any, file: Path, words: list[str]) -> None:
    status, _, err = cli("import", str(file), *words)
    assert status == 2
    assert "Usage: zerocfg import" in err
    assert cli("import", *words)[0] == 2


def test_help_after_the_file(cli: Any, file: Path) -> None:
    assert cli("import", str(file), "--help")[:2] == cli("import", "--help")[:2]
    assert cli("import", "--help")[0] == 0


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


def test_a_model_of_ones_own_decides_what_is_auto(cli: Any, tmp_path: Path) -> None:
    config = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto"}}
    (tmp_path / "ds.json").write_text(json.dumps(config))
    dims = {"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": 100, "n_positions": 32}
    (tmp_path / "my model").mkdir()
    (tmp_path / "my model" / "config.json").write_text(json.dumps(dims))
    status, out, _ = cli("import", "ds.json", "--model", "my model", "--json")
    overrides = json.loads(out)["overrides"]
    assert status == 0
    assert {"model=none", 'model.hf_config="my model"'} <= set(overrides)
    compiled = json.loads(cli("compile", "hardware=a100x8", *overrides, "--json")[1])["deepspeed"]["zero_optimization"]
    assert compiled["reduce_bucket_size"] == 64**2
    assert compiled["sub_group_size"] == 1_000_000_000


def test_neither_torch_nor_deepspeed_nor_hydra_is_imported(tmp_path: Path, file: Path) -> None:
    heavy = ("torch", "deepspeed", "submitit", "hydra", "omegaconf", "matplotlib")
    code = f"import sys; from zerocfg.cli import main; main(['import', {str(file)!r}]); print(*[m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == ""


def test_an_error_that_no_key_is_to_blame_for_is_status_1(cli: Any, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = Diagnostic(code="ZC640", path="x", message="x is missing", hint="x=1")
    imported = replace(import_config(CONFIG), notes=(left,))
    monkeypatch.setattr(import_, "import_config", lambda *_, **__: imported)
    status, out, err = cli("import", str(file))
    assert (status, out) == (1, PRINTED)
    assert err.startswith("error[ZC640] x is missing\n")
