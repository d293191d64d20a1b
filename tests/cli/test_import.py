"""zerocfg import: what is printed, and how its command line is read."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cli.importing import CONFIG, write_config
from zerocfg.cli import import_
from zerocfg.deepspeed.importer import import_config
from zerocfg.diagnostics import Diagnostic


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_config(tmp_path)


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
