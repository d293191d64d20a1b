"""Seconds by part: on the host's clock, and by events that nothing waits for."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from zerocfg.runtime import split
from zerocfg.runtime.split import Split


class Engine(torch.nn.Module):
    """As DeepSpeed's: called through nn.Module."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def forward(self, x: int, *, scale: int = 1) -> int:
        self.calls.append("forward")
        return x * scale

    def backward(self, loss: int) -> int:
        self.calls.append("backward")
        return loss

    def step(self) -> None:
        self.calls.append("step")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at it is a power of two later than the one before, so that a sum says which intervals it is made of."""

    def looks() -> Iterator[float]:
        now, step = 0.0, 1.0
        while True:
            yield now
            now, step = now + step, 2 * step

    times = looks()
    monkeypatch.setattr(split, "time", SimpleNamespace(perf_counter=lambda: next(times)))


def one_step(engine: Any) -> int:
    loss: int = engine(3, scale=2)
    engine.backward(loss)
    engine.step()
    return loss


@pytest.mark.usefixtures("clock")
def test_host() -> None:
    engine = Engine()
    with Split(engine, cuda=False) as found:
        assert one_step(engine) == 6
        assert found.take() == {"forward": 1.0, "backward": 4.0, "optimizer": 16.0}
        assert found.take() == {}
        engine(1)
        engine(1)
        assert found.take() == {"forward": 64.0 + 256.0}
    assert engine.calls == ["forward", "backward", "step", "forward", "forward"]
    assert not {"forward", "backward", "step"} & vars(engine).keys()


def test_a_call_that_fails_is_not_counted_and_the_engine_is_left_as_it_was() -> None:
    def fails() -> None:
        raise KeyError("no")

    engine = SimpleNamespace(step=fails)
    with Split(engine, cuda=False) as found:
        assert engine.step is not fails
        with pytest.raises(KeyError):
            engine.step()
    assert engine.step is fails
    assert found.take() == {}


def test_without_an_engine() -> None:
    with Split(None, cuda=False) as found:
        assert found.take() == {}


class Event:
    """As torch.cuda.Event: the GPU passes it some time after it was recorded."""

    made = 0
    gpu: list[Event] = []  # noqa: RUF012

    def __init__(self, *, enable_timing: bool) -> None:
        assert enable_timing
        Event.made += 1

    def record(self) -> None:
        self.at: float | None = None
        Event.gpu.append(self)

    def query(self) -> bool:
        return self.at is not None

    def elapsed_time(self, end: Event) -> float:
        assert self.at is not None
        assert end.at is not None
        return end.at - self.at


def test_events_are_read_when_the_gpu_has_passed_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(Event, "made", 0)
    Event.gpu.clear()
    engine, now = Engine(), 0.0

    def gpu_runs(events: int) -> None:
        nonlocal now
        for event in Event.gpu[:events]:
            event.at = now = now + 1000.0  # milliseconds
        del Event.gpu[:events]

    with Split(engine, cuda=True) as found:
        one_step(engine)
        found.collect()
        assert found.take() == {}
        gpu_runs(5)
        assert found.take() == {"forward": 1.0, "backward": 1.0}
        gpu_runs(1)
        found.collect()
        for _ in range(20):
            one_step(engine)
            gpu_runs(6)
            found.collect()
        assert found.take() == {"forward": 20.0, "backward": 20.0, "optimizer": 21.0}
    assert Event.made == 6
