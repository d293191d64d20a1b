"""What all ranks know at a step's end: whether one of them was asked to stop, whether it is time to save."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any

_SLOW_SECONDS = 0.2
"""From this step time on, ranks wait for each other's word at once: a small gloo all-reduce takes well below 1 % of it."""


@dataclass(slots=True)
class Word:
    """What one rank says, or the maximum over all of them. Numbers, so that one reduction carries them."""

    stop: float = 0.0
    """Asked to stop: the signal's number."""
    save: float = 0.0
    """A checkpoint is due by the clock."""
    writing: float = 0.0
    """Files of a checkpoint are still being written."""
    failed: float = 0.0
    """Files of a checkpoint could not be written."""
    step_seconds: float = 0.0

    def values(self) -> list[float]:
        return [getattr(self, field.name) for field in fields(self)]


class Agreement:
    """The same answer on every rank, at the same step.

    At the end of a short step the reduction is only begun, and its answer is taken at the end of the next one, so that nobody
    waits. It runs over gloo on the CPU, beside what the GPUs do. All ranks call in step.
    """

    def __init__(self, timeout: timedelta | None = None) -> None:
        """timeout: of a word; None: torch's for gloo, half an hour."""
        import torch

        self._group: Any = None
        self._pending: tuple[Any, Any] | None = None
        self._slow = True
        dist = torch.distributed
        if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
            self._group = dist.new_group(backend="gloo", timeout=timeout)

    @property
    def alone(self) -> bool:
        return self._group is None

    def exchange(self, mine: Word) -> Word:
        """At a step's end: what was said by all up to this step, or up to the one before while steps are short."""
        if self._group is None:
            return mine
        heard = [self._finish()] if self._pending is not None else []
        self._begin(mine)
        if self._slow:
            heard.append(self._finish())
        if not heard:
            return Word()
        agreed = Word(*(max(values) for values in zip(*(word.values() for word in heard), strict=True)))
        self._slow = agreed.step_seconds >= _SLOW_SECONDS
        return agreed

    def flush(self) -> Word:
        """What is still under way; nothing is after it."""
        return self._finish() if self._pending is not None else Word()

    def texts(self, mine: str) -> list[str]:
        """Every rank's text, by rank."""
        if self._group is None:
            return [mine]
        import torch

        gathered: list[str] = [""] * torch.distributed.get_world_size(self._group)
        torch.distributed.all_gather_object(gathered, mine, group=self._group)
        return gathered

    def close(self) -> None:
        """When nothing is under way: ends the group's threads, which may still hold the last word (see launch/ending.py)."""
        if self._group is not None:
            import torch

            group, self._group = self._group, None
            torch.distributed.destroy_process_group(group)

    def _begin(self, mine: Word) -> None:
        import torch

        values = torch.tensor(mine.values(), dtype=torch.float64)
        work = torch.distributed.all_reduce(values, op=torch.distributed.ReduceOp.MAX, group=self._group, async_op=True)
        self._pending = (work, values)

    def _finish(self) -> Word:
        assert self._pending is not None
        (work, values), self._pending = self._pending, None
        work.wait()
        return Word(*values.tolist())
