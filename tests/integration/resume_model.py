"""The training that resume_ranks.py starts and resumes: a model with all that a checkpoint may forget, its data, one loop."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from zerocfg.compiler import compile_run
from zerocfg.emit import COMPILED, read_compiled, write_compiled
from zerocfg.runtime.run import Run

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def make_run(folder: Path, changes: dict[str, Any]) -> Run:
    container: dict[str, Any] = {
        "hardware": {"accelerator": "cpu", "gpus_per_node": WORLD, "memory_bytes": 2**33, "host_memory_bytes": 2**35},
        "precision": {"dtype": "fp32"},
        "batch": {"global_batch_size": 8},
        "train": {"log_every": 1},
        "optimizer": {"lr": 1e-2},
        "scheduler": {"type": "WarmupLR", "warmup_num_steps": 10},
    }
    for path, value in changes.items():
        section, _, key = path.partition(".")
        container.setdefault(section, {})[key] = value
    compiled = compile_run(container)
    if RANK == 0:
        write_compiled(compiled, folder / COMPILED)
    if torch.distributed.is_initialized():
        torch.distributed.barrier()
    while not (folder / COMPILED / "launch.sh").exists():
        pass
    return Run(read_compiled(folder / COMPILED), output_dir=folder, rank=RANK, local_rank=RANK, world_size=WORLD)


class Model(nn.Module):
    """With all that a checkpoint may forget: dropout, a buffer, a frozen and a tied weight."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.a, self.frozen = nn.Linear(16, 64), nn.Linear(16, 64).requires_grad_(False)
        self.dropout, self.b, self.c = nn.Dropout(dropout), nn.Linear(64, 64), nn.Linear(64, 1)
        self.tied = nn.Linear(64, 64)
        self.tied.weight = self.b.weight
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: Any, y: Any) -> Any:
        self.calls += 1
        x, y = x.to(self.a.bias.dtype), y.to(self.a.bias.dtype)
        hidden = self.dropout(torch.relu(self.a(x) + self.frozen(x)))
        return ((self.c(torch.relu(self.tied(torch.relu(self.b(hidden))))) - y) ** 2).mean()


class GlobalBatches:
    """The same global batch however it is split; knows nothing of where a run begins."""

    def __init__(self, run: Run, size: int) -> None:
        self.batch, self.rank, self.size = run.plan.batch, run.data_parallel_rank, size

    def __iter__(self) -> Iterator[list[int]]:
        for step in range(1000):
            order = torch.randperm(self.size, generator=torch.Generator().manual_seed(step))[:8].tolist()
            micro = self.batch.micro_batch_size
            for first in range(self.rank * micro, 8, self.batch.data_parallel_size * micro):
                yield order[first : first + micro]


def data() -> Dataset[Any]:
    x = torch.randn(50, 16, generator=torch.Generator().manual_seed(3))
    return TensorDataset(x, x.sum(1, keepdim=True))


def train(run: Run, *, stop_after: int = 0, dropout: float = 0.1, shuffle: bool = True) -> Any:
    return loop(run, begin(run, dropout=dropout, shuffle=shuffle), stop_after=stop_after, shuffle=shuffle)


def begin(run: Run, *, dropout: float, shuffle: bool) -> Any:
    model = run.build(Model, dropout)
    if shuffle:
        engine = run.initialize(model)
    else:
        trained = [weight for weight in model.parameters() if weight.requires_grad]
        matrices = {id(module.weight) for module in (model.a, model.b, model.c)}
        groups = [[w for w in trained if id(w) in matrices], [w for w in trained if id(w) not in matrices]]
        # settings that differ by group are part of the state
        settings = [{"params": group, "weight_decay": decay} for group, decay in zip(groups, (2.0, 0.0), strict=True)]
        engine = run.initialize(model, model_parameters=settings)
    return engine


def loop(run: Run, engine: Any, *, stop_after: int = 0, shuffle: bool = True) -> Any:
    if shuffle:
        loader = DataLoader(data(), batch_size=run.plan.batch.micro_batch_size, shuffle=True, drop_last=True)
    else:
        loader = DataLoader(data(), batch_sampler=GlobalBatches(run, 50))  # type: ignore[arg-type]
    groups = process_groups()
    for step in run.steps(loader):
        for inputs, targets in step:
            loss = engine(inputs, targets)
            engine.backward(loss)
            engine.step()
            step.record(loss)
        if step.number == stop_after and RANK == WORLD - 1:  # one rank hears of it
            os.kill(os.getpid(), signal.SIGUSR2)
    assert process_groups() == groups, "the loop left a group, and its threads, behind"
    return engine


def process_groups() -> int:
    return len(torch.distributed.distributed_c10d._world.pg_map)
