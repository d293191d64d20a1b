"""Micro batches out of whatever a script trains on, and the place in them: a resumed run goes on with the batch that comes next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from zerocfg.diagnostics import ConfigProblems, Diagnostic
from zerocfg.runtime.random_state import host_state, set_host_state
from zerocfg.units import counted


class MicroBatches(Iterator[Any]):
    """Reads `batches` over and over; each time through is an epoch.

    Before an epoch, `set_epoch(epoch)` is called on it, its sampler or its dataset where one has it (torch's DistributedSampler
    shuffles differently then). How it finds its place again, the first that applies:

    - `batches` has state_dict and load_state_dict (torchdata's StatefulDataLoader): its own state is kept and given back;
    - it, its sampler or its dataset has `set_start_step(step)`: told the number of optimizer steps done, it begins there;
    - else the generators (Python's, numpy's, torch's) are set to what they were when the epoch began, and the epoch's micro
      batches up to the place are read and dropped.
    """

    def __init__(self, batches: Iterable[Any]) -> None:
        self._batches = batches
        self._iterator: Iterator[Any] | None = None
        self._epoch = 0
        self._place = 0
        """Micro batches taken in this epoch."""
        self._random: dict[str, Any] = {}
        """Generators when the epoch began."""

    def __next__(self) -> Any:
        if self._iterator is None:
            self._begin()
        assert self._iterator is not None
        for batch in self._iterator:
            self._place += 1
            return batch
        if self._place == 0:
            raise ConfigProblems([_nothing()])
        self._epoch, self._place = self._epoch + 1, 0
        self._begin()
        for batch in self._iterator:
            self._place += 1
            return batch
        raise ConfigProblems([_nothing()])

    def _begin(self) -> None:
        self._random = host_state()
        for part in _parts(self._batches):
            if hasattr(part, "set_epoch"):
                part.set_epoch(self._epoch)
        self._iterator = iter(self._batches)

    def state(self) -> dict[str, Any]:
        """The place after what was taken so far."""
        state = {"epoch": self._epoch, "place": self._place, "random": self._random}
        if _is_stateful(self._batches):
            state["loader"] = self._batches.state_dict()  # type: ignore[attr-defined]
        return state

    def resume(self, state: dict[str, Any] | None, *, step: int, micro_batches: int) -> str:
        """Go to the place of a run that has done `step` optimizer steps. Returns how, in words.

        state: what `state()` gave in this rank; None where it means nothing (another number of ranks): then `micro_batches` are
        dropped from the start. Generators are left as dropping batches left them.
        """
        if state is not None and "loader" in state and _is_stateful(self._batches):
            self._epoch, self._place, self._random = state["epoch"], state["place"], state["random"]
            self._batches.load_state_dict(state["loader"])  # type: ignore[attr-defined]
            self._iterator = iter(self._batches)
            return "the loader's own state"
        told = [part for part in _parts(self._batches) if hasattr(part, "set_start_step")]
        if told:
            told[0].set_start_step(step)
            return f"{type(told[0]).__name__}.set_start_step({step})"
        if state is not None and state["random"]:
            self._epoch, micro_batches = state["epoch"], state["place"]
            set_host_state(state["random"])
        for _ in islice(self, micro_batches):
            pass
        return f"{counted(micro_batches, 'micro batch')} read and dropped"


def _parts(batches: Any) -> list[Any]:
    """The iterable, and what decides its order."""
    sampler = getattr(batches, "batch_sampler", None)
    candidates = (batches, sampler, getattr(sampler, "sampler", None), getattr(batches, "sampler", None), getattr(batches, "dataset", None))
    found: list[Any] = []
    for part in candidates:
        if part is not None and not any(part is other for other in found):
            found.append(part)
    return found


def _is_stateful(batches: Any) -> bool:
    return hasattr(batches, "state_dict") and hasattr(batches, "load_state_dict")


def _nothing() -> Diagnostic:
    return Diagnostic(
        code="ZC784",
        path="train.data",
        message="the data gives no (more) batches",
        hint="a DataLoader or a list can be read again; a generator cannot",
    )
