from __future__ import annotations

import json
import re
from typing import Any

import pytest

GPT = ("model=gpt_1b3", "hardware=h200x2", "parallelism=zero1", "batch.micro_batch_size=4")


def test_json(cli: Any) -> None:
    status, out, err = cli("memory", *GPT, "--json")
    told = json.loads(out)
    assert (status, err) == (0, "")
    assert set(told) >= {"peak_allocated_bytes", "peak_reserved_bytes", "parts", "phase", "host_bytes_per_node", "fits"}
    assert sum(told["parts"].values()) == told["peak_allocated_bytes"] <= told["peak_reserved_bytes"]
    # measured on two H200
    assert told["peak_allocated_bytes"] == pytest.approx(28_508_924_928, rel=0.05)
    assert told["fits"] is True


def test_the_table_names_each_part_and_other_micro_batches(cli: Any) -> None:
    status, out, _ = cli("memory", *GPT)
    assert status == 0
    first, second, *_ = out.splitlines()
    needed = re.search(r"needed +(.*) of (.*): ", out)
    assert needed is not None
    assert first == f"gpt_1b3 on h200x2 fits: it needs {needed[1].strip()} of a GPU's {needed[2]}"
    assert second == "ZeRO stage 1, bf16, micro batch 4 x 1, 2 ranks; activations: closed form"
    assert [line for line in out.splitlines() if len(line) > 80] == []
    for text in ("master weights", "optimizer states", "activations", "allocated", "needed", "backward |", "other micro batches"):
        assert text in out
    sizes = [line.split()[0] for line in out.partition("other micro batches\n")[2].splitlines()]
    assert sizes == ["1", "2", "4", "8", "16"]
    assert [line for line in out.splitlines() if line.endswith(" <")] == [
        next(line for line in out.splitlines() if line.startswith("     4  "))
    ]


def test_what_does_not_fit_is_shown_all_the_same(cli: Any) -> None:
    assert " on h200x2 does not fit: it needs " in cli("memory", *GPT, "batch.micro_batch_size=64")[1].splitlines()[0]
    status, out, err = cli("memory", *GPT, "batch.micro_batch_size=64", "--json")
    assert status == 1
    assert json.loads(out)["fits"] is False
    assert "error[ZC501]" in err


def test_host_memory_of_offload(cli: Any) -> None:
    status, out, _ = cli("memory", *GPT, "offload=optimizer", "--json")
    told = json.loads(out)
    assert status == 0
    assert 0 < told["pinned_bytes_per_node"] < told["host_bytes_per_node"]


def test_a_broken_config_gives_its_problems(cli: Any) -> None:
    status, out, _ = cli("memory", "hardware=v100x4", "precision=bf16", "--json")
    assert (status, [d["code"] for d in json.loads(out)]) == (1, ["ZC401"])


def test_a_model_that_is_not_described(cli: Any) -> None:
    status, out, err = cli("memory", "model=none", "hardware=a100x4")
    assert (status, out) == (1, "")
    assert "describes no model" in err
    _, out, _ = cli("memory", "model=none", "hardware=a100x4", "--json")
    assert json.loads(out)["fits"] is None


@pytest.mark.parametrize("name", ["", "memory", ".", "nowhere/memory.png", "memory.foo"])
def test_a_plot_that_cannot_be_written(cli: Any, name: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    for command in (("memory", *GPT), ("plan", *GPT)):
        status, out, err = cli(*command, "--plot", name)
        assert (status, err.startswith(f"--plot {name}: "), "allocated" in out) == (2, True, True)
    assert list(tmp_path.iterdir()) == []


def test_ranks_without_gpus(cli: Any) -> None:
    status, out, _ = cli("memory", "model=gpt_tiny", "hardware=cpu", "precision=fp32")
    assert status == 0
    assert "a rank, at the peak" in out
    assert "CUDA" not in out
    status, out, err = cli("plan", "model=gpt_tiny", "hardware=cpu")
    assert "tokens/s/rank" in out
    assert "GPU" not in out + err


def test_a_plot_without_matplotlib(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    status, out, err = cli("memory", *GPT, "--plot", "memory.png")
    assert (status, "zerocfg[plot]" in err) == (2, True)
    assert "allocated" in out


@pytest.mark.parametrize("stage", ["zero1", "zero2", "zero3"])
@pytest.mark.parametrize("offload", ["none", "optimizer", "all"])
def test_other_rules_are_those_of_deepspeed(stage: str, offload: str) -> None:
    from deepspeed.runtime.zero.stage3 import estimate_zero3_model_states_mem_needs
    from deepspeed.runtime.zero.stage_1_and_2 import estimate_zero2_model_states_mem_needs

    from zerocfg.memory.others import deepspeed_zero2, deepspeed_zero3

    count, largest, gpus = 6_738_415_616, 131_072_000, 8
    moved = offload != "none"
    if stage == "zero3":
        _, theirs, _ = estimate_zero3_model_states_mem_needs(count, largest, 4, 2, cpu_offload=moved, cpu_offload_params=offload == "all")
        assert deepspeed_zero3(count, largest, gpus, optimizer=moved, param=offload == "all").bytes == theirs
    else:
        _, theirs = estimate_zero2_model_states_mem_needs(count, 4, 2, cpu_offload=moved)
        assert deepspeed_zero2(count, gpus, optimizer=moved).bytes == theirs


def test_compare_prints_them_beside_ours(cli: Any) -> None:
    _, out, _ = cli("memory", "model=llama2_7b", "hardware=a100x4", "parallelism=zero3", "--compare")
    tail = out.splitlines()[-5:]
    assert [line.split("  ")[1] for line in tail[1:]] == [
        "DeepSpeed, estimate_zero3_model_states_mem_needs",
        "accelerate estimate-memory",
        "zerocfg, model states",
        "zerocfg, all that is allocated",
    ]
