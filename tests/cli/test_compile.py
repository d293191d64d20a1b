from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from zerocfg.facts import Detected

LLAMA = ("parallelism=zero3", "hardware=a100x4", "precision=bf16", "model=llama2_7b", "batch.global_batch_size=256")


def test_json_is_exactly_the_four_products(cli: Any) -> None:
    status, out, err = cli("compile", *LLAMA, "--json")
    assert (status, err) == (0, "")
    told = json.loads(out)
    assert list(told) == ["deepspeed", "torchrun", "environment", "resources"]
    assert told["deepspeed"]["train_batch_size"] == 256
    assert told["deepspeed"]["train_micro_batch_size_per_gpu"] * told["deepspeed"]["gradient_accumulation_steps"] * 4 == 256
    assert told["deepspeed"]["zero_optimization"]["reduce_bucket_size"] == 100_000_000
    assert told["torchrun"][:3] == ["--nnodes=1", "--nproc-per-node=4", "--standalone"]
    assert told["environment"]["OMP_NUM_THREADS"] == "12"
    assert told["resources"] == {
        "num_nodes": 1,
        "gpus_per_node": 4,
        "gpu": "A100-SXM4-80GB",
        "ranks_per_node": 4,
        "cpus_per_node": 48,
        "memory_bytes_per_gpu": 80 * 2**30,
        "host_memory_bytes": 512 * 2**30,
    }


def test_plain_output_holds_the_same_in_sections(cli: Any) -> None:
    told = json.loads(cli("compile", *LLAMA, '+env.NOTE="it\'s here"', "--json")[1])
    status, out, err = cli("compile", *LLAMA, '+env.NOTE="it\'s here"')
    assert (status, err) == (0, "")
    heads, bodies = zip(*(section.split("\n", 1) for section in out.rstrip("\n").split("\n\n")), strict=True)
    assert heads == ("[deepspeed]", "[torchrun]", "[environment]", "[resources]")
    assert json.loads(bodies[0]) == told["deepspeed"]
    assert bodies[1].split("\n") == told["torchrun"]
    # every line can be pasted after `env`
    shown = subprocess.run(["sh", "-c", "env -i " + bodies[2].replace("\n", " ") + " env"], capture_output=True, text=True, check=True)
    assert dict(line.split("=", 1) for line in shown.stdout.splitlines()) == told["environment"]
    assert bodies[3].split("\n") == [f"{name} = {value}" for name, value in told["resources"].items()]


def test_the_example_of_the_readme(cli: Any) -> None:
    status, out, _ = cli(
        "compile",
        "parallelism=zero3",
        "precision=fp16",
        "offload=optimizer",
        "optimizer=adamw",
        "optimizer.lr=2e-5",
        "optimizer.weight_decay=0.01",
        "scheduler=warmup_lr",
        "scheduler.warmup_num_steps=100",
        "hardware=a100x4",
        "--json",
    )
    assert status == 0
    deepspeed = json.loads(out)["deepspeed"]
    assert deepspeed["fp16"]["enabled"] is True
    zero = deepspeed["zero_optimization"]
    assert (zero["stage"], zero["overlap_comm"], zero["contiguous_gradients"]) == (3, True, True)
    assert (zero["offload_optimizer"]["device"], zero["offload_optimizer"]["pin_memory"]) == ("cpu", True)
    assert deepspeed["optimizer"]["type"] == "AdamW"
    assert (deepspeed["optimizer"]["params"]["lr"], deepspeed["optimizer"]["params"]["weight_decay"]) == (2e-5, 0.01)
    assert deepspeed["scheduler"]["type"] == "WarmupLR"
    assert deepspeed["scheduler"]["params"]["warmup_num_steps"] == 100
    assert deepspeed["scheduler"]["params"]["warmup_max_lr"] == 2e-5
    assert isinstance(deepspeed["train_batch_size"], int)
    assert isinstance(deepspeed["train_micro_batch_size_per_gpu"], int)


def test_errors_keep_stdout_parseable_and_the_report_readable(cli: Any) -> None:
    status, out, err = cli("compile", "hardware=a100x44", "optimizer.lrr=3", "--json")
    assert status == 1
    told = json.loads(out)
    assert [(d["code"], d["severity"], d["path"]) for d in told] == [("ZC110", "error", "hardware"), ("ZC111", "error", "optimizer.lrr")]
    assert all(set(d) == {"code", "severity", "path", "message", "hint"} for d in told)
    assert err.startswith("error[ZC110] hardware=a100x44: hardware has no option a100x44\n")
    assert err.endswith("\n2 errors\n")


def test_errors_without_json_leave_stdout_empty(cli: Any) -> None:
    status, out, err = cli("compile", "hardware=a100x44")
    assert (status, out) == (1, "")
    assert "Traceback" not in err


def test_warnings_are_reported_beside_the_product(cli: Any) -> None:
    status, out, err = cli("compile", "hardware=a100x4", "parallelism.zero_quantized_gradients=true", "--json")
    assert status == 0
    assert set(json.loads(out)) == {"deepspeed", "torchrun", "environment", "resources"}
    assert err.startswith("warning[ZC309]")


def test_a_project_of_ones_own(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "mine.yaml").write_text(
        "defaults:\n  - zerocfg\n  - _self_\n  - override hardware: v100x4\n  - override precision: fp16\n"
    )
    for option in (("--config-path", "conf", "--config-name", "mine"), ("--config-path=conf", "--config-name=mine")):
        status, out, _ = cli("compile", *option, "--json")
        assert status == 0
        assert json.loads(out)["resources"]["gpu"] == "V100-SXM2-32GB"


def test_only_hardware_that_is_detected_looks_at_this_machine(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import zerocfg.probe

    looked = []

    def detect() -> Detected:
        looked.append(1)
        return Detected(cpus=6, host_memory_bytes=2**34, numa_nodes=1, reason="a test says so")

    monkeypatch.setattr(zerocfg.probe, "detect", detect)
    assert cli("compile", "hardware=a100x4")[0] == 0
    assert looked == []
    status, out, _ = cli("compile", "hardware=auto", "--json")
    assert (status, looked) == (0, [1])
    assert json.loads(out)["environment"]["DS_ACCELERATOR"] == "cpu"


def test_the_users_environment_is_kept_and_told(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    status, out, err = cli("compile", "hardware=a100x4", "--json")
    assert status == 0
    assert json.loads(out)["environment"]["OMP_NUM_THREADS"] == "3"
    assert "OMP_NUM_THREADS=3 of your environment is kept" in err


def test_nothing_heavy_is_imported(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from zerocfg.cli import main\n"
        f"status = main({['compile', *LLAMA, '--json', '--out', 'there']!r})\n"
        "heavy = 'torch deepspeed submitit rich typer pydantic numpy pynvml importlib.metadata'.split()\n"
        "print(status, [name for name in heavy if name in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.stderr == "written to there: ./there/compiled/launch.sh SCRIPT.py ARGUMENTS\n0 []\n"


FILES = ["ds_config.json", "environment.json", "launch.sh", "plan.json", "provenance.json", "resources.json", "torchrun.json"]


@pytest.mark.parametrize("name", ["out", "a b", "it's", "a\nb", "$(touch owned)", "-out"])
def test_out_writes_below_its_folder_and_nowhere_else(cli: Any, tmp_path: Path, name: str) -> None:
    status, out, err = cli("compile", *LLAMA, "--json", f"--out={name}")
    told, folder, start, *rest = shlex.split(err.replace("to ", "", 1).replace(": ", " ", 1))
    assert (status, told, folder, start, rest) == (0, "written", name, f"./{name}/compiled/launch.sh", ["SCRIPT.py", "ARGUMENTS"])
    written = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file())
    assert written == [Path(name) / "compiled" / file for file in FILES]
    assert json.loads((tmp_path / name / "compiled" / "ds_config.json").read_text()) == json.loads(out)["deepspeed"]
    assert os.access(tmp_path / name / "compiled" / "launch.sh", os.X_OK)


def test_out_again_changes_nothing_and_other_files_are_not_overwritten(cli: Any, tmp_path: Path) -> None:
    assert cli("compile", *LLAMA, "--out", "out")[0] == 0
    assert cli("compile", *LLAMA, "--out", "out")[0] == 0
    before = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    status, out, err = cli("compile", *LLAMA, "optimizer.lr=1e-5", "--out", "out", "--json")
    assert status == 1
    (told,) = json.loads(out)
    assert told["code"] == "ZC181"
    assert "ds_config.json" in told["message"]
    assert "--force" in told["hint"]
    assert err.startswith("error[ZC181] out/compiled holds other files of the same names: ds_config.json")
    assert {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()} == before
    assert cli("compile", *LLAMA, "optimizer.lr=1e-5", "--out", "out", "--force")[0] == 0
    assert json.loads((tmp_path / "out" / "compiled" / "ds_config.json").read_text())["optimizer"]["params"]["lr"] == 1e-5
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["compiled"]


def test_out_does_not_follow_a_link_out_of_its_folder(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "compiled").symlink_to(tmp_path / "elsewhere")
    status, _, err = cli("compile", *LLAMA, "--out", "out", "--force")
    assert status == 1
    assert "error[ZC181] out/compiled is a link" in err
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_out_that_cannot_be_a_folder(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    status, _, err = cli("compile", *LLAMA, "--out", "file")
    assert status == 1
    assert err.startswith("error[ZC181] --out file cannot be written: ")


def test_errors_write_nothing(cli: Any, tmp_path: Path) -> None:
    assert cli("compile", "nope=1", "--out", "out")[0] == 1
    assert list(tmp_path.iterdir()) == []
