"""Where the time of a step goes: the engine's three calls, timed without waiting for the GPU."""

from __future__ import annotations

import functools
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any

CALLS = {"forward": "forward", "backward": "backward", "optimizer": "step"}
"""Part of a step -> the engine's method. The reduction of gradients counts where DeepSpeed waits for it: in the backward pass, or in
engine.step."""


class Split:
    """Seconds of this rank in engine.forward, engine.backward and engine.step while the block runs; without an engine, none.

    On cuda an event stands before and after each call and is read when the GPU has passed it, so that nothing waits: 20 us of the host
    a micro batch. On cpu the host's clock. A script that calls loss.backward() itself has no backward time.
    """

    def __init__(self, engine: Any, *, cuda: bool) -> None:
        self._engine = engine
        self._clock: _Host | _Cuda = _Cuda() if cuda else _Host()
        self._before: dict[str, Any] = {}
        """Instance attributes that the wrappers stand in for; absent: the class's method."""
        self._wrapped: list[str] = []

    def __enter__(self) -> Split:
        for part, name in CALLS.items():
            call = getattr(self._engine, name, None)
            if callable(call):
                if name in vars(self._engine):
                    self._before[name] = call
                setattr(self._engine, name, self._timed(part, call))
                self._wrapped.append(name)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for name in self._wrapped:
            if name in self._before:
                setattr(self._engine, name, self._before[name])
            else:
                delattr(self._engine, name)

    def _timed(self, part: str, call: Callable[..., Any]) -> Callable[..., Any]:
        clock = self._clock

        @functools.wraps(call)
        def timed(*args: Any, **kwargs: Any) -> Any:
            begun = clock.mark()
            result = call(*args, **kwargs)
            clock.passed(part, begun)
            return result

        return timed

    def collect(self) -> None:
        """At a step's end: read what is over by now, so that events can be used again."""
        self._clock.collect()

    def take(self) -> dict[str, float]:
        """Seconds by part since the last call; parts that were never called are absent. On cuda the GPU must have been waited for."""
        self._clock.collect()
        seconds, self._clock.seconds = self._clock.seconds, {}
        return seconds


class _Host:
    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def mark(self) -> float:
        return time.perf_counter()

    def passed(self, part: str, begun: float) -> None:
        self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - begun

    def collect(self) -> None:
        pass


class _Cuda:
    """Events of the current stream."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._spare: list[Any] = []
        self._open: deque[tuple[str, Any, Any]] = deque()

    def mark(self) -> Any:
        import torch

        event = self._spare.pop() if self._spare else torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def passed(self, part: str, begun: Any) -> None:
        self._open.append((part, begun, self.mark()))

    def collect(self) -> None:
        while self._open and self._open[0][2].query():
            part, begun, ended = self._open.popleft()
            self.seconds[part] = self.seconds.get(part, 0.0) + begun.elapsed_time(ended) / 1e3
            self._spare += (begun, ended)
