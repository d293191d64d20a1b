"""A model of one weight, an engine that counts its steps and writes one file, and a loop over them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from zerocfg.runtime.checkpoint_files import survey
from zerocfg.runtime.run import Run

MakeRun = Callable[..., Run]
SAVING = {"checkpoint.every_steps": 3, "train.steps": 8, "train.log_every": 1}


class Engine:
    """What zerocfg uses of DeepSpeed's engine, with one weight: it counts its steps."""

    def __init__(self, size: int = 1) -> None:
        self.weight = torch.zeros(size)
        self.module = torch.nn.ParameterDict({"weight": torch.nn.Parameter(torch.zeros(size), requires_grad=False)})
        self.optimizer = SimpleNamespace(param_groups=[{"lr": 0.5}])
        self.basic_optimizer: Any = self.optimizer
        self.lr_scheduler: Any = None
        self.skipped_steps = 0
        self.checkpoint_engine: Any = SimpleNamespace(is_data_parallel_writer=lambda rank: rank == 0)

    def step(self) -> None:
        self.weight += 1

    def zero_optimization(self) -> bool:
        return True

    def zero_nvme_offload_optimizer(self) -> bool:
        return False

    def _copy_recovery_script(self, path: str) -> None:
        raise OSError("a copy that nobody has asked for")

    def save_checkpoint(self, folder: str, *, tag: str, client_state: Any, save_latest: bool) -> None:
        assert (client_state, save_latest) == ({}, False)
        self._copy_recovery_script(folder)
        assert not self.zero_nvme_offload_optimizer()
        self.checkpoint_engine.makedirs(f"{folder}/{tag}", exist_ok=True)
        self.checkpoint_engine.create(None)
        self.checkpoint_engine.save(state_dict={"weight": self.weight}, path=f"{folder}/{tag}/weight.pt")
        self.checkpoint_engine.commit(None)

    def load_checkpoint(self, folder: str, *, tag: str) -> tuple[str, dict[str, Any]]:
        self.weight = torch.load(Path(folder) / tag / "weight.pt")["weight"]
        return folder, {}


def train(run: Run, engine: Engine, at: Callable[[int], None] = lambda step: None) -> list[int]:
    """Steps that were done."""
    done = []
    for step in run.steps([torch.zeros(1)], engine=engine):
        for _ in step:
            engine.step()
            step.record(engine.weight[0])
        done.append(step.number)
        at(step.number)
    return done


def saved(run: Run) -> list[int]:
    return [checkpoint.step for checkpoint in survey(run.output_dir / "checkpoints")[0]]


def lines(run: Run) -> list[tuple[int, float]]:
    return [(r["step"], r["loss"]) for r in map(json.loads, (run.output_dir / "metrics.jsonl").read_text().splitlines())]


def send(number: int, step: int) -> Callable[[int], None]:
    return lambda done: os.kill(os.getpid(), number) if done == step else None
