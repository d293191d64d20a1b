from __future__ import annotations

from typing import Any

import pytest

from zerocfg.deepspeed.importer.arguments import Arguments, read_arguments
from zerocfg.diagnostics import ConfigProblems

READ: list[tuple[str, dict[str, Any]]] = [
    ("--per_device_train_batch_size 4 --learning_rate=2e-5", {"trainer": {"per_device_train_batch_size": 4, "learning_rate": 2e-5}}),
    ("--per-device-train-batch-size 4", {"trainer": {"per_device_train_batch_size": 4}}),
    ("--bf16 --max_steps 100", {"trainer": {"bf16": True, "max_steps": 100}}),
    ("--bf16 True --fp16=false", {"trainer": {"bf16": True, "fp16": False}}),
    ("--bf16_full_eval", {"trainer": {"bf16": True}}),
    ("--num_gpus 8 --num_nodes 2", {"gpus_per_node": 8, "num_nodes": 2, "world": 16}),
    ("--nproc-per-node=4 --nnodes 2:2", {"gpus_per_node": 4, "num_nodes": 2, "world": 8}),
    ("--num_processes 8 --num_machines 2", {"world_size": 8, "num_nodes": 2, "world": 8}),
    ("--mixed_precision bf16", {"trainer": {"fp16": False, "bf16": True}}),
    ("--mixed_precision no", {"trainer": {"fp16": False, "bf16": False}}),
    ("--zero_stage 3", {"zero": {"zero_optimization.stage": 3}}),
    (
        "--offload_optimizer_device nvme --offload_optimizer_nvme_path /nvme",
        {"zero": {"zero_optimization.offload_optimizer.device": "nvme", "zero_optimization.offload_optimizer.nvme_path": "/nvme"}},
    ),
    ("--zero3_save_16bit_model true", {"zero": {"zero_optimization.stage3_gather_16bit_weights_on_model_save": True}}),
    ("--gradient_clipping 0.5", {"trainer": {"max_grad_norm": 0.5}}),
    ("", {}),
]  # fmt: skip


def facts(arguments: Arguments) -> dict[str, Any]:
    names = ("trainer", "zero", "num_nodes", "gpus_per_node", "world_size", "world")
    return {name: getattr(arguments, name) for name in names if getattr(arguments, name)}


@pytest.mark.parametrize(("line", "wanted"), READ)
def test_what_an_argument_says(line: str, wanted: dict[str, Any]) -> None:
    assert facts(read_arguments(line.split())) == wanted


VALUE = "VALUE, as the Trainer or the launcher takes it"
SCRIPT = "the script's own arguments after --"
BAD = [
    ("--per_device_train_batchsize 4", "ZC920", "--per_device_train_batchsize", "--per_device_train_batch_size"),
    ("--output_dir out", "ZC920", "--output_dir", SCRIPT),
    ("train.py", "ZC920", "train.py", SCRIPT),
    ("--per_device_train_batch_size", "ZC920", "--per_device_train_batch_size", f"--per_device_train_batch_size {VALUE}"),
    ("--per_device_train_batch_size 0", "ZC920", "--per_device_train_batch_size", f"--per_device_train_batch_size {VALUE}"),
    ("--learning_rate fast", "ZC920", "--learning_rate", f"--learning_rate {VALUE}"),
    ("--learning_rate nan", "ZC920", "--learning_rate", f"--learning_rate {VALUE}"),
    ("--warmup_ratio 3", "ZC920", "--warmup_ratio", f"--warmup_ratio {VALUE}"),
    ("--mixed_precision fp8", "ZC920", "--mixed_precision", f"--mixed_precision {VALUE}"),
    ("--zero_stage 4", "ZC920", "--zero_stage", f"--zero_stage {VALUE}"),
    ("--nnodes 1:4", "ZC920", "--nnodes", f"--nnodes {VALUE}"),
    ("--num_processes 8 --num_gpus 4", "ZC923", "", "give one of them"),
]


@pytest.mark.parametrize(("line", "code", "path", "hint"), BAD)
def test_what_means_nothing_is_an_error(line: str, code: str, path: str, hint: str) -> None:
    with pytest.raises(ConfigProblems) as caught:
        read_arguments(line.split())
    assert [(d.code, d.path, d.hint) for d in caught.value.diagnostics] == [(code, path, hint)]


def test_all_bad_arguments_are_told_at_once() -> None:
    with pytest.raises(ConfigProblems) as caught:
        read_arguments(["--learning_rate", "fast", "--nothing", "3", "--bf16", "--num_gpus", "x"])
    assert [d.path for d in caught.value.diagnostics] == ["--learning_rate", "--nothing", "--num_gpus"]


def test_after_the_dashes_the_scripts_own_arguments_are_noted() -> None:
    line = "deepspeed --num_gpus 4 train.py --model_name_or_path gpt2 --bf16 --per_device_eval_batch_size 2 --gradient_checkpointing"
    arguments = read_arguments([], line.split())
    assert facts(arguments) == {"trainer": {"bf16": True}, "gpus_per_node": 4, "world": 4}
    left = "deepspeed, train.py, --model_name_or_path, --per_device_eval_batch_size, --gradient_checkpointing"
    (note,) = arguments.notes
    assert (note.code, note.message) == ("ZC921", f"left to the script, as no DeepSpeed value follows from it: {left}")


def test_after_the_dashes_a_slip_of_the_pen_is_still_an_error() -> None:
    with pytest.raises(ConfigProblems) as caught:
        read_arguments([], ["--per_device_train_batchsize", "4"])
    assert caught.value.diagnostics[0].hint == "--per_device_train_batch_size"
