from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def test_three_errors_in_one_report(cli: Any) -> None:
    words = (
        "parallelism=zero2",
        "offload=all",
        "precision=bf16",
        "hardware=v100x4",
        "batch.global_batch_size=102",
        "batch.micro_batch_size=4",
    )
    status, out, err = cli("check", *words)
    assert (status, out) == (1, "")
    assert (
        err
        == """\
error[ZC201] batch.global_batch_size=102 cannot be reached on 4 ranks
  102 = micro_batch (4) x gradient_accumulation (?) x data_parallel (4) has no whole solution: 102 / 16 = 6.375
  data_parallel = world 4 / (tensor 1 x sequence 1)
  decided by: command line: batch.global_batch_size=102
  try: batch.global_batch_size=96 or 112
error[ZC302] offload.param=cpu has no effect at stage 2: only stage 3 shards parameters
  decided by: zerocfg/offload/all.yaml:4
  try: parallelism=zero3, or offload=optimizer
error[ZC401] precision.dtype=bf16 needs compute capability 8.0; V100-SXM2-32GB has 7.0
  below 8.0 bf16 products are emulated: DeepSpeed accepts it, and it crawls
  decided by: zerocfg/precision/bf16.yaml:3
  try: precision=fp16

3 errors
"""
    )
    status, out, err = cli("check", *words, "--json")
    assert (status, err) == (1, "")
    told = json.loads(out)
    assert [(d["code"], d["severity"], d["path"]) for d in told] == [
        ("ZC201", "error", "batch.global_batch_size"),
        ("ZC302", "error", "offload.param"),
        ("ZC401", "error", "precision.dtype"),
    ]
    assert all(set(d) == {"code", "severity", "path", "message", "hint"} for d in told)
    assert "102 / 16 = 6.375" in told[0]["message"]


def test_problems_of_composing_and_of_compiling_come_together(cli: Any) -> None:
    status, out, _ = cli("check", "hardware=a100x44", "train.stepz=1", "batch.global_batch_size=102", "batch.micro_batch_size=4", "--json")
    assert status == 1
    assert [d["code"] for d in json.loads(out)] == ["ZC110", "ZC111", "ZC201"]


def test_a_clean_config(cli: Any) -> None:
    assert cli("check", "hardware=a100x4") == (0, "", "no problems found\n")
    assert cli("check", "hardware=a100x4", "--json") == (0, "[]\n", "")


def test_warnings_alone_are_no_failure(cli: Any) -> None:
    status, out, err = cli("check", "hardware=a100x4", "parallelism.zero_quantized_gradients=true")
    assert (status, out) == (0, "")
    assert err.endswith("1 warning\n")


def test_every_value_left_open_is_listed(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "config.yaml").write_text(
        "defaults:\n  - zerocfg\n  - _self_\n  - override model: ???\n"
        "train:\n  steps: ???\n  seed: ???\nbatch:\n  micro_batch_size: ???\ndeepspeed:\n  steps_per_print: ???\n"
    )
    status, out, _ = cli("check", "--config-path", "conf", "hardware=a100x4", "train.seed=3", "--json")
    assert status == 1
    assert [(d["code"], d["path"]) for d in json.loads(out)] == [
        ("ZC101", "batch.micro_batch_size"),
        ("ZC101", "deepspeed.steps_per_print"),
        ("ZC101", "train.steps"),
        ("ZC118", "model"),
    ]


def test_a_primary_config_that_is_not_there(cli: Any) -> None:
    status, out, err = cli("check", "--config-path", "nowhere")
    assert (status, out) == (1, "")
    assert err.startswith("error[ZC114] --config-path nowhere: there is no folder ")
    assert "Traceback" not in err


def test_options_of_the_launcher_are_checked(cli: Any) -> None:
    status, _, err = cli("check", "hardware=a100x4", "hydra.launcher.on_infeasible=skp", "hydra.launcher.job_name='${hydra:job.name}'")
    assert (status, err.count("error[ZC715]")) == (1, 2)
    slurm = ("hydra/launcher=zerocfg_slurm", "hydra.launcher.job_name='${hydra:job.name}'")
    assert cli("check", "hardware=a100x4", *slurm)[0] == 0
