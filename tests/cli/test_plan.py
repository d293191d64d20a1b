from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from zerocfg.cli.plan_measure import words

ON_V100 = ("model=llama2_13b", "hardware=v100x4", "batch.global_batch_size=64")


def test_json(cli: Any) -> None:
    status, out, err = cli("plan", *ON_V100, "--json")
    told = json.loads(out)
    assert (status, err) == (0, "")
    assert set(told[0]) >= {"overrides", "tokens_per_s_per_gpu", "peak_allocated_bytes", "limiting"}
    assert "precision=fp16" in told[0]["overrides"]
    assert any(text.startswith("offload=") and text != "offload=none" for text in told[0]["overrides"])
    status, out, _ = cli("check", *ON_V100, *told[0]["overrides"], "--json")
    assert (status, json.loads(out)) == (0, [])


def test_a_short_step_is_not_zero_seconds(cli: Any) -> None:
    _, out, _ = cli("plan", "model=gpt_tiny", "hardware=a100x4", "--top", "1")
    assert re.search(r"%\s+[\d.]+ ms  ", out) is not None
    assert re.search(r"0\.00 s|\de-\d", out) is None


def test_the_table(cli: Any) -> None:
    status, out, err = cli("plan", "model=llama2_7b", "hardware=a100x4", "--top", "2")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "llama2_7b, 6.74B parameters, sequences of 4096, on 4 x A100-SXM4-80GB"
    assert [line.split(".")[0].strip() for line in lines if line[:4].strip().rstrip(".").isdigit() and line[3] == "."] == ["1", "2"]
    (takes,) = [line for line in lines if line.startswith("1. takes ")]
    assert "GPU compute" in takes
    assert any(line.startswith("  parallelism.stage3_max_live_parameters=") and " slower, " in line for line in lines)
    assert any(line.startswith("  parallelism.leaf_module_classes=the repeated block: [] is ") for line in lines)


def test_what_the_command_line_sets_stays(cli: Any) -> None:
    _, out, _ = cli("plan", "model=gpt_1b3", "hardware=h200x2", "parallelism=zero2", "batch.micro_batch_size=4", "--json")
    told = json.loads(out)
    assert {word.partition("=")[0] for plan in told for word in plan["overrides"]} <= {
        "offload",
        "activation_checkpointing",
        "parallelism.reduce_bucket_size",
    }


def test_refused_without_offload(cli: Any) -> None:
    status, out, err = cli("plan", *ON_V100, "offload=none")
    assert (status, out) == (1, "")
    assert "error[ZC501]" in err
    assert "V100-SXM2-32GB has 32 GiB" in err
    assert "try: offload=optimizer" in err


def test_slow_links_are_warned_about(cli: Any) -> None:
    _, _, err = cli(
        "plan", "model=gpt2_124m", "hardware=rtx4090_x2", "hardware.num_nodes=2", "hardware.network=tcp", "hardware.network_gbps=1.25"
    )
    assert err.count("warning[ZC512]") == 2
    assert "through host memory" in err


def test_without_dims_the_rule_is_said(cli: Any) -> None:
    status, out, _ = cli("plan", "model=none", "hardware=a100x4", "model.num_parameters=7e9")
    assert status == 0
    assert out.startswith("no prediction: rule by size: 7B parameters")
    assert "parallelism=zero3" in out


def test_the_rule_keeps_what_the_command_line_sets(cli: Any) -> None:
    base = ("plan", "model=none", "hardware=a100x4", "model.num_parameters=70e9")
    status, out, _ = cli(*base, "parallelism=zero2", "activation_checkpointing=full", "batch.micro_batch_size=4")
    assert (status, out.splitlines()[1:]) == (0, ["  offload=optimizer"])
    assert "at stage 2 their states take 359 GiB a GPU" in out
    _, out, _ = cli(*base, "parallelism=ddp", "--json")
    assert json.loads(out)[0]["overrides"] == ["offload=none", "activation_checkpointing=none", "batch.micro_batch_size=1"]


@pytest.mark.parametrize("degree", ["tensor_parallel_degree", "sequence_parallel_degree"])
def test_the_head_line_is_of_the_whole_model(cli: Any, degree: str) -> None:
    base = ("plan", "model=llama3_8b", "hardware=h100x8", "activation_checkpointing=full", "batch.micro_batch_size=1")
    whole, part = (cli(*base, *more)[1].splitlines() for more in ((), (f"parallelism.{degree}=4",)))
    assert part[0] == whole[0] == "llama3_8b, 8.03B parameters, sequences of 8192, on 8 x H100-SXM5-80GB"


def test_what_tensor_parallel_ranks_do_twice_is_not_in_mfu(cli: Any) -> None:
    base = ("plan", "model=llama3_8b", "hardware=h100x8", "--json")
    one, four = (json.loads(cli(*base, *more)[1])[0] for more in ((), ("parallelism.tensor_parallel_degree=4",)))
    assert one["mfu"] / one["tokens_per_s_per_gpu"] == pytest.approx(four["mfu"] / four["tokens_per_s_per_gpu"])


def test_where_nothing_fits_the_smallest_plan_is_named(cli: Any) -> None:
    status, out, err = cli("plan", "model=llama3_70b", "hardware=a100x4")
    assert (status, out) == (1, "")
    assert re.match(
        r"  of \d{3} plans compared that is the one that takes the least of a GPU: parallelism=zero3 offload=all", err.splitlines()[1]
    )


@pytest.mark.parametrize(
    ("more", "by"),
    [
        (("batch.global_batch_size=6",), "command line: batch.global_batch_size=6"),
        (("model.num_hidden_layers=0",), "command line: model.num_hidden_layers=0"),
        (("offload=none", "hardware=v100x4"), "zerocfg/hardware/v100x4.yaml:6"),
    ],
)
def test_errors_say_who_decided_it(cli: Any, more: tuple[str, ...], by: str) -> None:
    _, _, err = cli("plan", "model=llama2_13b", "hardware=a100x4", *more)
    assert f"  decided by: {by}" in err.splitlines()


def test_what_the_planner_decided_is_not_laid_to_a_file(cli: Any) -> None:
    _, _, err = cli("plan", "model=llama3_70b", "hardware=a100x4")
    assert "error[ZC502]" in err
    assert "decided by" not in err


def test_what_check_refuses_is_not_offered(cli: Any) -> None:
    base = ("plan", "model=llama2_7b", "hardware=a100x4")
    for more, code in (("parallelism.reduce_bucket_size=0", "ZC625"), ("+deepspeed.zero_optimization.reduce_bucket_siz=3", "ZC601")):
        status, out, err = cli(*base, more)
        assert (status, out, f"error[{code}]" in err) == (1, "", True)


def test_hardware_that_is_half_described(cli: Any) -> None:
    nothing = [f"hardware.{name}=0" for name in ("bf16_tflops", "fp16_tflops", "memory_bandwidth_gbps", "link_gbps", "pcie_gbps")]
    base = ("plan", "model=gpt_1b3", "hardware=a100x4", "hardware.num_nodes=2", *nothing, "hardware.network_gbps=0")
    for more in ((), ("hardware.tf32_tflops=0",), ("hardware.tf32_tflops=0", "hardware.fp32_tflops=0"), ("precision=fp32",)):
        status, out, err = cli(*base, *more, "--json")
        assert status == 0
        assert json.loads(out)[0]["tokens_per_s_per_gpu"] > 0
        assert "a slow link: 16 GB/s between the GPUs" in err
        assert "a slow link: 1.25 GB/s between the nodes" in err


def test_hpz_is_a_number_of_gpus(cli: Any) -> None:
    _, out, _ = cli("plan", "model=llama3_70b", "hardware=h100x8", "hardware.num_nodes=4", "--json")
    sizes = {word for plan in json.loads(out) for word in plan["overrides"] if "hpz" in word}
    assert sizes <= {"parallelism.zero_hpz_partition_size=8"}
    assert sizes


def test_a_calibration_is_preferred(cli: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    base = ("plan", "model=gpt_1b3", "hardware=h200x2", "--json")
    before = json.loads(cli(*base)[1])
    file = tmp_path / "zerocfg" / "calibration-h200-sxm-141gb-x2.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"matmul_tflops": {"bf16": 300.0}}), encoding="utf-8")
    after = json.loads(cli(*base)[1])
    assert after[0]["tokens_per_s_per_gpu"] < 0.7 * before[0]["tokens_per_s_per_gpu"]
    file.write_text("not json", encoding="utf-8")
    _, out, err = cli(*base)
    assert json.loads(out) == before
    assert "warning[ZC513]" in err


def test_measure_needs_the_script(cli: Any) -> None:
    status, _, err = cli("plan", "model=gpt_1b3", "hardware=h200x2", "--measure", "1")
    assert (status, "there is no such file" in err) == (2, True)


def test_the_planners_words_replace_those_asked_for() -> None:
    asked = ["model=a", "parallelism=auto", "+batch.micro_batch_size=auto"]
    assert words(asked, ["parallelism=zero1", "batch.micro_batch_size=4"]) == ["model=a", "parallelism=zero1", "batch.micro_batch_size=4"]
