"""Ranks that train on the same samples, and a loader with another batch size, are told: neither fails, and both train another run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import UserDict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler

from zerocfg.plan import Plan
from zerocfg.runtime.run import Run
from zerocfg.runtime.samples import check_own, check_size, fingerprint

MakeRun = Callable[..., Run]
RANK = """
import json, logging, sys
from types import SimpleNamespace
from pathlib import Path
import torch
from zerocfg.emit import read_compiled
from zerocfg.launch.ending import leave
from zerocfg.runtime.run import Run
job, rank, shared = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "same"
logging.basicConfig(stream=sys.stdout, format="%(message)s")
torch.distributed.init_process_group("gloo", init_method=f"file://{job}/store_{sys.argv[3]}", rank=rank, world_size=2)
run = Run(read_compiled(job / "compiled"), output_dir=job, rank=rank, local_rank=rank, world_size=2)
data = [[torch.full((1, 4), 0 if shared else rank)] for _ in range(2)]
for step in run.steps(data, engine=SimpleNamespace(optimizer=SimpleNamespace(param_groups=[{"lr": 1.0}]), skipped_steps=0)):
    for batch in step:
        step.record(torch.tensor(1.0))
sys.stdout.flush()
leave(0)
"""


@pytest.fixture
def plan(cpu_run: MakeRun) -> Plan:
    """Four ranks, micro batches of 3, two a step."""
    return cpu_run({"hardware.gpus_per_node": 4, "batch.micro_batch_size": 3, "batch.gradient_accumulation_steps": 2}).plan


@pytest.mark.parametrize("samples", ["same", "own"])
def test_two_ranks(cpu_run: MakeRun, samples: str) -> None:
    folder = cpu_run({"hardware.gpus_per_node": 2, "train.steps": 2}).output_dir
    command = [sys.executable, "-c", RANK, str(folder)]
    ranks = [subprocess.Popen([*command, str(r), samples], stdout=subprocess.PIPE, text=True, env=os.environ) for r in range(2)]
    said = [rank.communicate(timeout=120)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0]
    told = "warning[ZC786] all 2 ranks train on the same samples: what they compute is the same\n"
    assert [told in text for text in said] == [samples == "same", False]
    assert len((folder / "metrics.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("by_rank", "who"),
    [
        ([1.0, 1.0, 1.0, 1.0], ["all 4 ranks"]),
        ([1.0, 2.0, 1.0, 3.0], ["ranks 0, 2"]),
        ([1.0, 2.0, 2.0, 1.0], ["ranks 0, 3", "ranks 1, 2"]),
        ([1.0, 2.0, 3.0, 4.0], []),
        ([0.0, 0.0, 0.0, 0.0], []),  # no tensors: not known
    ],
)
def test_who_has_the_same(plan: Plan, by_rank: list[float], who: list[str]) -> None:
    assert [d.message.partition(" train")[0] for d in check_own(by_rank, plan)] == who


def test_ranks_that_share_a_model_read_the_same(plan: Plan) -> None:
    pairs = replace(plan, topology=replace(plan.topology, tensor_parallel_degree=2))
    assert list(check_own([1.0, 1.0, 2.0, 2.0], pairs)) == []
    (found,) = check_own([1.0, 1.0, 1.0, 1.0], pairs)
    assert found.detail == ("their first micro batches are equal; batch.global_batch_size=24 counts them 2 times",)


def test_the_fingerprint_is_of_what_the_tensors_hold() -> None:
    a, b = torch.arange(6.0).bfloat16(), torch.arange(6)
    assert fingerprint([a, b]) == fingerprint((a.clone(), b.clone())) == fingerprint(UserDict(x=a, y=b)) != 0
    assert len({fingerprint(x) for x in (a, b, [b, a], torch.arange(7), {"x": b + 1}, torch.tensor(True))}) == 6
    assert fingerprint(torch.arange(6).reshape(2, 3).t()) != fingerprint(b)
    for nothing in ("text", [], None, torch.empty(0), [torch.eye(2).to_sparse()]):
        assert fingerprint(nothing) == 0
    assert fingerprint(a).is_integer()
    assert fingerprint(a) < 2**48


def test_a_loader_of_another_batch_size(plan: Plan) -> None:
    data: Any = list(range(12))
    (found,) = check_size(DataLoader(data, batch_size=8).batch_size, plan)
    assert found.render().splitlines() == [
        "warning[ZC787] the loader has batch_size=8, the plan batch.micro_batch_size=3",
        "  a step takes 8 x 2 x 4 = 64 samples, not batch.global_batch_size=24",
        "  try: DataLoader(data, batch_size=run.plan.batch.micro_batch_size), or batch.micro_batch_size=8",
    ]
    whole = DataLoader(data, batch_sampler=BatchSampler(SequentialSampler(data), 8, drop_last=False))
    for fine in (DataLoader(data, batch_size=3), DataLoader(data, batch_size=None), whole):
        assert list(check_size(fine.batch_size, plan)) == []


def test_the_loop_looks_at_the_loader(cpu_run: MakeRun, caplog: pytest.LogCaptureFixture) -> None:
    run = cpu_run({"train.steps": 1, "batch.micro_batch_size": 1})
    data: Any = torch.zeros(4, 2)
    for step in run.steps(DataLoader(data, batch_size=2), engine=None):
        for _ in step:
            pass
    assert [r.getMessage().partition("\n")[0] for r in caplog.records if r.levelname == "WARNING"] == [
        "warning[ZC787] the loader has batch_size=2, the plan batch.micro_batch_size=1"
    ]
