"""Whether a checkpoint fits a run: as it is, converted, or not at all, with what to write instead."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from zerocfg.compiler import compile_run
from zerocfg.plan import Plan
from zerocfg.runtime.checkpoint_files import Checkpoint
from zerocfg.runtime.checkpoint_shape import Way, fit

Make = Callable[..., dict[str, Any]]


@pytest.fixture
def judged(container: Make) -> Callable[[dict[str, Any], dict[str, Any]], tuple[Way, str]]:
    """judged(config of the run that saved, config of the run that resumes) -> the way, and what is said."""

    def plan_of(changes: dict[str, Any]) -> Plan:
        return compile_run(container({"train.steps": 100, **changes})).plan

    def judge(saved: dict[str, Any], now: dict[str, Any]) -> tuple[Way, str]:
        stored = json.loads(json.dumps(asdict(plan_of(saved))))
        checkpoint = Checkpoint(path=Path("/c/global_step40"), step=40, manifest={"plan": stored})
        found = fit(checkpoint, plan_of(now))
        return found.way, "\n".join(d.render() for d in found.diagnostics)

    return judge


ROTARY = {
    "num_hidden_layers": 4,
    "hidden_size": 512,
    "num_attention_heads": 8,
    "vocab_size": 1000,
    "sequence_length": 128,
    "positions": "rotary",
}
Judge = Callable[[dict[str, Any], dict[str, Any]], tuple[Way, str]]


@pytest.mark.parametrize(
    ("saved", "now"),
    [
        ({}, {}),
        # what a rank's file does not depend on
        ({}, {"train.steps": 200, "checkpoint.every_steps": 7, "train.log_every": 1, "parallelism.reduce_bucket_size": 1000}),
        ({"model": ROTARY}, {"model": {**ROTARY, "sequence_length": 64}}),
        ({"model": {}}, {}),
        ({}, {"model": {}}),
        # every rank of stage 0 holds everything
        ({"parallelism.stage": 0}, {"parallelism.stage": 0, "hardware.gpus_per_node": 2, "batch.global_batch_size": 8}),
        ({"hardware.num_nodes": 2, "hardware.gpus_per_node": 4}, {}),
    ],
)
def test_as_it_is(judged: Judge, saved: dict[str, Any], now: dict[str, Any]) -> None:
    saved.setdefault("batch.global_batch_size", 8)
    now.setdefault("batch.global_batch_size", 8)
    assert judged(saved, now) == (Way.as_it_is, "")


def note(differences: str) -> str:
    return f"note[ZC772] the checkpoint of step 40 is converted first: {differences}\n  /c/global_step40\n  random generators start anew"


@pytest.mark.parametrize(
    ("saved", "now", "differences"),
    [
        ({"hardware.gpus_per_node": 4}, {"hardware.gpus_per_node": 2}, "topology.num_nodes x nproc_per_node 4 -> 2"),
        (
            {"hardware.gpus_per_node": 4},
            {"hardware.gpus_per_node": 2, "parallelism.stage": 2},
            "topology.num_nodes x nproc_per_node 4 -> 2, zero.stage 3 -> 2",
        ),
        ({"parallelism.stage": 1}, {"parallelism.stage": 3}, "zero.stage 1 -> 3"),
        ({"parallelism.sub_group_size": 1000}, {"parallelism.sub_group_size": 500}, "zero.sub_group_size 1000 -> 500"),
        ({}, {"parallelism.sequence_parallel_degree": 2}, "topology.sequence_parallel_degree 1 -> 2"),
        ({"parallelism.stage": 0}, {"parallelism.stage": 2}, "zero.stage 0 -> 2"),
        ({"parallelism.stage": 2}, {"parallelism.stage": 0}, "zero.stage 2 -> 0"),
        ({}, {"precision.dtype": "fp32"}, "precision.dtype bf16 -> fp32"),
        # the number of ranks is nothing to stage 0
        (
            {"parallelism.stage": 0},
            {"parallelism.stage": 0, "precision.dtype": "fp32", "hardware.gpus_per_node": 2},
            "precision.dtype bf16 -> fp32",
        ),
    ],
)
def test_converted(judged: Judge, saved: dict[str, Any], now: dict[str, Any], differences: str) -> None:
    batch = {"batch.global_batch_size": 8}
    assert judged({**batch, **saved}, {**batch, **now}) == (Way.converted, note(differences))


@pytest.mark.parametrize(
    ("saved", "now"),
    [
        ({}, {"precision.dtype": "fp16"}),
        ({"precision.dtype": "fp16", "parallelism.stage": 0}, {"precision.dtype": "fp16", "parallelism.stage": 1}),
    ],
)
def test_a_loss_scale_that_starts_anew_is_told(judged: Judge, saved: dict[str, Any], now: dict[str, Any]) -> None:
    way, said = judged(saved, now)
    assert way is Way.converted
    assert said.endswith("  random generators and the loss scale start anew")


@pytest.mark.parametrize(
    ("saved", "now", "why", "hint"),
    [
        (
            {},
            {"model.num_hidden_layers": 5, "model.vocab_size": 900},
            "the model is another one: num_hidden_layers 4 -> 5, vocab_size 1000 -> 900",
            "model.num_hidden_layers=4 model.vocab_size=1000",
        ),
        ({}, {"model.sequence_length": 64}, "the model is another one: sequence_length 128 -> 64", "model.sequence_length=128"),
        (
            {"precision": {"dtype": "bf16", "master_dtype": "bf16"}},
            {"precision": {"dtype": "bf16"}},
            "precision.master_dtype was bf16, now it is fp32",
            "precision.master_dtype=bf16",
        ),
        (
            {"model.name": "small"},
            {"model.name": "wide", "model.hidden_size": 1024},
            "the model is another one: hidden_size 512 -> 1024, head_dim 64 -> 128, intermediate_size 2048 -> 4096",
            "model=small",
        ),
        ({}, {"optimizer.type": "Lion"}, "optimizer.type was AdamW, now it is Lion", "optimizer=adamw"),
        ({}, {"optimizer.type": None}, "optimizer.type was AdamW, now it is the script's own", "optimizer=adamw"),
        ({"optimizer.type": None}, {}, "optimizer.type was the script's own, now it is AdamW", "optimizer=none"),
        (
            {"parallelism.tensor_parallel_degree": 2},
            {},
            "topology.tensor_parallel_degree was 2, now it is 1",
            "parallelism.tensor_parallel_degree=2",
        ),
        (
            {"parallelism": {"stage": 0, "tensor_parallel_degree": 2}},
            {"parallelism": {"stage": 1, "tensor_parallel_degree": 2}},
            "zero.stage 0 -> 1: stage 0 is not converted where weights are cut over 2 tensor-parallel ranks",
            "8 ranks at stage 0 in bf16, as it was saved",
        ),
        (
            {"optimizer.type": "Lion"},
            {"optimizer.type": "Lion", "precision.dtype": "fp32"},
            "precision.dtype bf16 -> fp32: DeepSpeed converts the states of Adam and AdamW, not of Lion",
            "8 ranks at stage 3 in bf16, as it was saved",
        ),
        (
            {"optimizer.type": "Lion"},
            {"optimizer.type": "Lion", "hardware.gpus_per_node": 4},
            "topology.num_nodes x nproc_per_node 8 -> 4: DeepSpeed converts the states of Adam and AdamW, not of Lion",
            "8 ranks at stage 3 in bf16, as it was saved",
        ),
        (
            {"offload": {"optimizer": "nvme", "nvme_path": "/nvme"}},
            {"hardware.gpus_per_node": 4},
            "topology.num_nodes x nproc_per_node 8 -> 4: states was on NVMe, which DeepSpeed does not convert",
            "8 ranks at stage 3 in bf16, as it was saved",
        ),
    ],
)
def test_refused(judged: Judge, saved: dict[str, Any], now: dict[str, Any], why: str, hint: str) -> None:
    way, said = judged({"batch.global_batch_size": 8, **saved}, {"batch.global_batch_size": 8, **now})
    assert way is Way.refused
    assert said.split("\n")[:3] == [
        f"error[ZC771] the checkpoint of step 40 cannot be resumed: {why}",
        "  /c/global_step40",
        f"  try: {hint}; or checkpoint.resume=never to start anew",
    ]


def test_what_the_losses_depend_on(judged: Judge) -> None:
    betas = {"optimizer.betas": [0.9, 0.95]}
    way, said = judged(betas, {**betas, "optimizer.lr": 2e-4, "batch.global_batch_size": 16, "train.seed": 1, "train.data": "text"})
    assert way is Way.as_it_is
    assert said == (
        "warning[ZC773] batch.global_batch_size, optimizer.params.lr, train.seed, train.data:"
        " not what the checkpoint of step 40 was trained with\n"
        "  batch.global_batch_size: 8 -> 16\n"
        "  optimizer.params.lr: 0.0001 -> 0.0002\n"
        "  train.seed: 1234 -> 1\n"
        "  train.data: none -> text\n"
        "  the config's values hold from here on\n"
        "  try: the same values, or checkpoint.resume=never"
    )


def test_another_schedule(judged: Judge) -> None:
    schedule = {"type": "WarmupLR", "warmup_num_steps": 10}
    for saved, now, changes in (
        ({}, {"scheduler": schedule}, ["scheduler.type: none -> WarmupLR"]),
        ({"scheduler": schedule}, {}, ["scheduler.type: WarmupLR -> none"]),
        (
            {"scheduler": schedule},
            {"scheduler": {**schedule, "warmup_num_steps": 20}},
            ["scheduler.params.warmup_num_steps: 10 -> 20"],
        ),
    ):
        way, said = judged(saved, now)
        holds = "the config's values hold from here on" + (", the schedule as after so many steps" if now else "")
        assert (way, said.split("\n")[1:-1]) == (Way.as_it_is, [f"  {line}" for line in (*changes, holds)])


def test_of_an_earlier_release(container: Make) -> None:
    """What its plan does not have counts as what it is now."""
    plan = compile_run(container({"train.steps": 100})).plan
    stored = json.loads(json.dumps(asdict(plan)))
    for section, name in (("zero", "sub_group_size"), ("zero", "round_robin_gradients"), ("scheduler", "params"), ("train", "data")):
        del stored[section][name]
    stored["model"].pop("positions")
    found = fit(Checkpoint(path=Path("/c/global_step40"), step=40, manifest={"plan": stored}), plan)
    assert (found.way, found.diagnostics) == (Way.as_it_is, ())


def test_nothing_left_to_do(judged: Judge) -> None:
    assert judged({}, {"train.steps": 40}) == (
        Way.as_it_is,
        "note[ZC778] train.steps=40 are done already: the checkpoint is of step 40\n  /c/global_step40\n  try: train.steps=80 to go on",
    )
