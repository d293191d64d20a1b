"""Blocks of steps in turns with another job on the same devices: what both sides of overhead.py iterate over."""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

_FOLDER, _STEPS = Path(os.environ["OVERHEAD_FOLDER"]), int(os.environ["OVERHEAD_STEPS"])


def taking_turns(side: str, steps: Iterable[Any], loss: Callable[[], float]) -> Iterator[Any]:
    """The same steps; before each block wait for the turn. A block's time: from there until the next block's first step would begin,
    all ranks and the GPU waited for, so that what the loop does between two steps is in it."""
    import torch

    rank = int(os.environ["RANK"])
    folder = _FOLDER / side
    cuda = torch.cuda.is_available()

    def wait_for_all() -> None:
        if cuda:
            torch.cuda.synchronize()
        torch.distributed.barrier()
        if cuda:
            torch.cuda.synchronize()

    def say(name: str, text: str = "") -> None:
        if rank == 0:
            draft = folder / f".{name}"
            draft.write_text(text, encoding="utf-8")
            draft.replace(folder / name)

    def wait_for(name: str) -> None:
        # on the host, every rank by itself: a collective would keep the GPU busy
        while not (folder / name).exists():
            time.sleep(0.005)

    def took() -> str:
        return f"{time.perf_counter() - begun[0]} {time.process_time() - begun[1]}"

    begun = (0.0, 0.0)
    for number, step in enumerate(steps):
        if number % _STEPS == 0:
            if number:
                wait_for_all()
                say(f"done_{number // _STEPS - 1}", took())
            else:
                say("ready")
            wait_for(f"go_{number // _STEPS}")
            begun = (time.perf_counter(), time.process_time())
        yield step
    wait_for_all()
    say("loss", f"{loss():.6f}")
    say(f"done_{number // _STEPS}", took())
    wait_for("end")


def example() -> Any:
    """train.py's model and data."""
    spec = importlib.util.spec_from_file_location("train_example", Path(__file__).parents[1] / "train.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["train_example"] = module
    spec.loader.exec_module(module)
    return module
