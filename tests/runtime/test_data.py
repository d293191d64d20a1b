"""The place in the data: a resumed loop sees what the uninterrupted one would have seen, whatever the loader is."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler, IterableDataset, TensorDataset

from zerocfg.runtime.data import MicroBatches
from zerocfg.runtime.random_state import host_state, rank_state, set_host_state, set_rank_state


class Noisy(Dataset[Any]):
    """Draws from all three generators, as augmentations do."""

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> Any:
        return torch.tensor([index, random.random(), numpy.random.rand(), torch.rand(()).item()], dtype=torch.float64)


class Own:
    """An iterable that keeps its own state."""

    def __init__(self) -> None:
        self.place = 0

    def __iter__(self) -> Iterator[int]:
        while self.place < 7:
            self.place += 1
            yield self.place
        self.place = 0

    def state_dict(self) -> dict[str, int]:
        return {"place": self.place}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.place = state["place"]


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(9))


def shuffled() -> Any:
    return DataLoader(TensorDataset(torch.arange(10)), batch_size=3, shuffle=True)


LOADERS: dict[str, Callable[[], Any]] = {
    "list": lambda: [1, 2, 3],
    "shuffled": shuffled,
    "noisy": lambda: DataLoader(Noisy(), batch_size=2, shuffle=True),
    "workers": lambda: DataLoader(Noisy(), batch_size=2, shuffle=True, num_workers=2),
    "distributed": lambda: DataLoader(Noisy(), sampler=DistributedSampler(Noisy(), num_replicas=2, rank=1), batch_size=1),
    "own state": Own,
    "stream": lambda: DataLoader(Stream(), batch_size=4),
}


def plain(batch: Any) -> Any:
    if isinstance(batch, torch.Tensor):
        return batch.tolist()
    return [plain(part) for part in batch] if isinstance(batch, (list, tuple)) else batch


def seed() -> None:
    random.seed(1)
    numpy.random.seed(1)
    torch.manual_seed(1)


def take(data: MicroBatches, count: int) -> list[Any]:
    """As a training does: it draws too (dropout on the CPU)."""
    seen = []
    for batch in islice(data, count):
        seen.append(plain(batch))
        torch.rand(3)
    return seen


@pytest.mark.parametrize("place", [0, 1, 4, 13])
@pytest.mark.parametrize("kind", list(LOADERS))
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # workers are forked in a process with threads
def test_the_same_batches(kind: str, place: int) -> None:
    seed()
    straight = take(MicroBatches(LOADERS[kind]()), 25)
    seed()
    first = MicroBatches(LOADERS[kind]())
    before = take(first, place)
    state, generators = first.state(), rank_state(cuda=False)

    seed()  # a new process
    second = MicroBatches(LOADERS[kind]())
    if place:
        second.resume(state, step=place, micro_batches=place)
        set_rank_state(generators, cuda=False)
    assert before + take(second, 25 - place) == straight


def test_a_sampler_that_can_jump_is_told() -> None:
    class Sampler:
        first = 0

        def set_start_step(self, step: int) -> None:
            self.first = step

        def __iter__(self) -> Iterator[list[int]]:
            return iter([[i] for i in range(2 * self.first, 20)])

    loader: Any = DataLoader(TensorDataset(torch.arange(20)), batch_sampler=Sampler())  # type: ignore[arg-type]
    data = MicroBatches(loader)
    assert data.resume(None, step=4, micro_batches=8) == "Sampler.set_start_step(4)"
    assert plain(next(data)) == [[8]]


def test_without_a_state_batches_are_dropped_from_the_start() -> None:
    data = MicroBatches([1, 2, 3])
    assert data.resume(None, step=4, micro_batches=8) == "8 micro batches read and dropped"
    assert next(data) == 3
    assert data.state()["epoch"] == 2


def test_epochs_of_a_distributed_sampler_differ() -> None:
    dataset = TensorDataset(torch.arange(30))
    loader = DataLoader(dataset, sampler=DistributedSampler(dataset, num_replicas=2, rank=0), batch_size=15)
    data = MicroBatches(loader)
    first, second = plain(next(data)), plain(next(data))
    assert first != second
    sampler = DistributedSampler(dataset, num_replicas=2, rank=0)
    sampler.set_epoch(1)
    assert second == [list(sampler)]


def test_generators() -> None:
    seed()
    state = host_state()
    drawn = (random.random(), numpy.random.rand(), torch.rand(2).tolist())
    set_host_state(state)
    assert (random.random(), numpy.random.rand(), torch.rand(2).tolist()) == drawn
