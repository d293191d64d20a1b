"""What the launcher's arguments and the number of ranks decide, and what a file leaves to them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.deepspeed.importer.asked import MICRO, overrides
from zerocfg.deepspeed.importer import Imported, import_config
from zerocfg.diagnostics import ConfigProblems


def test_batch_numbers_that_fit_no_ranks() -> None:
    entry = import_config({"train_batch_size": 4, "gradient_accumulation_steps": 8}).entries[0]
    assert (entry.outcome, entry.code) == ("refused", "ZC642")
    assert entry.reason == "is no multiple of gradient_accumulation_steps: no number of ranks fits; 4 / 8 = 0.5; try: train_batch_size=8"


def test_batch_numbers_that_do_not_fit_the_ranks_given() -> None:
    entry = import_config({"train_batch_size": 30, "train_micro_batch_size_per_gpu": 2}, world_size=8).entries[0]
    assert (entry.outcome, entry.code) == ("refused", "ZC641")
    assert "train_batch_size=16 or train_batch_size=32" in entry.reason


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        ({"train_batch_size": 6}, [1, 2, 3, 6]),
        ({"train_batch_size": 12, "train_micro_batch_size_per_gpu": 2}, [1, 2, 3, 6]),
        ({"train_batch_size": 12, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2}, [3]),
        ({"train_batch_size": 12, "tensor_parallel": {"autotp_size": 2}}, [2, 4, 6, 12]),
        ({"train_batch_size": 8192, "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1}, [8192]),
        ({"train_batch_size": 8, "sequence_parallel_size": 2, "data_parallel_size": 4}, [8]),
        ({"train_batch_size": 16, "zero_optimization": {"stage": 3, "zero_hpz_partition_size": 4}}, [1, 2, 4, 8, 16]),
    ],
)
def test_the_world_sizes_that_the_numbers_allow(config: dict[str, Any], wanted: list[int]) -> None:
    imported = import_config(config)
    assert list(imported.world_sizes) == wanted
    assert not imported.any_world_size


def test_without_a_global_batch_any_number_of_ranks_fits() -> None:
    imported = import_config(MICRO)
    assert imported.any_world_size
    assert list(imported.world_sizes) == list(range(1, 1025))


def hardware(*words: str, **options: Any) -> list[str]:
    return [line for line in import_config(MICRO, arguments=words, **options).overrides if line.startswith("hardware")]


def test_the_launchers_arguments_and_world_size_become_hardware() -> None:
    assert hardware("--num_gpus", "4") == ["hardware.gpus_per_node=4"]
    assert hardware("--num_gpus", "8", "--num_nodes", "2") == ["hardware.num_nodes=2", "hardware.gpus_per_node=8"]
    assert hardware("--num_processes", "8", "--num_machines", "2") == ["hardware.num_nodes=2", "hardware.gpus_per_node=4"]
    assert hardware(world_size=4) == ["hardware.gpus_per_node=4"]
    assert hardware(world_size=32) == ["hardware.num_nodes=4", "hardware.gpus_per_node=8"]
    assert hardware() == []


def test_two_different_world_sizes_are_an_error() -> None:
    with pytest.raises(ConfigProblems) as caught:
        import_config(MICRO, arguments=["--num_gpus", "4"], world_size=8)
    assert [d.code for d in caught.value.diagnostics] == ["ZC923"]


def test_an_argument_against_the_file_is_an_error_as_in_the_trainer() -> None:
    config = {"train_micro_batch_size_per_gpu": 4, "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "betas": [0.9, 0.99]}}}
    words = ["--per_device_train_batch_size", "8", "--learning_rate", "1e-4", "--adam_beta2", "0.95"]
    with pytest.raises(ConfigProblems) as caught:
        import_config(config, arguments=words)
    assert [(d.code, d.path) for d in caught.value.diagnostics] == [
        ("ZC922", "optimizer.params.betas"),
        ("ZC922", "train_micro_batch_size_per_gpu"),
    ]


def test_arguments_decide_what_accelerate_writes_itself() -> None:
    assert overrides({}, arguments=["--per_device_train_batch_size", "4", "--bf16"]) == []
    lines = import_config({}, arguments=["--per_device_train_batch_size", "4", "--bf16"]).overrides
    assert {"precision=bf16", "batch.micro_batch_size=4"} <= set(lines)


def test_an_argument_that_decides_nothing_is_noted() -> None:
    notes = import_config(MICRO, arguments=["--learning_rate", "1e-3"]).notes
    assert [(note.code, note.path) for note in notes if note.code == "ZC921"] == [("ZC921", "--learning_rate")]


def test_warmup_ratio_and_max_steps() -> None:
    config = {"scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": "auto", "total_num_steps": "auto"}}}
    lines = overrides(config, arguments=["--warmup_ratio", "0.03", "--max_steps", "1010"])
    assert {"scheduler.warmup_num_steps=31", "scheduler.total_num_steps=1010"} <= set(lines)
    assert "train.steps=1010" in import_config(config, arguments=["--max_steps", "1010"]).overrides


def test_a_length_left_open_is_longer_than_the_warmup() -> None:
    config = {"scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 500, "total_num_steps": "auto"}}}
    assert "train.steps=5000" in overrides(config)
    config["scheduler"]["params"]["warmup_num_steps"] = 50
    assert not [line for line in overrides(config) if line.startswith("train.")]


def test_what_the_file_leaves_out_is_a_warning_not_a_guess() -> None:
    notes = {
        note.code: (note.severity.label, note.path)
        for note in import_config({"scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 1}}}).notes
    }
    assert notes == {
        "ZC640": ("warning", "train_micro_batch_size_per_gpu"),
        "ZC657": ("warning", "scheduler.params.cycle_max_lr"),
        "ZC671": ("warning", "gradient_clipping"),
    }  # fmt: skip


def test_autotp_counts_its_ranks_in_the_batch() -> None:
    config = {"train_batch_size": 16, "tensor_parallel": {"autotp_size": 2}}
    assert told_of(import_config(config), "train_batch_size") == ("refused", "ZC643")
    imported = import_config(config, world_size=4)
    assert told_of(imported, "train_batch_size") == ("migrated", "ZC909")
    assert {"batch.micro_batch_size=4", "batch.gradient_accumulation_steps=1"} <= set(imported.overrides)


def told_of(imported: Imported, path: str) -> tuple[str, str]:
    return next((e.outcome, e.code) for e in imported.entries if e.path == path)
