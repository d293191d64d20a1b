"""The random generators of one rank: Python's, numpy's, torch's on the CPU and on its GPU, DeepSpeed's for recomputed activations."""

from __future__ import annotations

import random
from typing import Any


def host_state() -> dict[str, Any]:
    """What code on the CPU draws from: a sampler, a dataset, a DataLoader that seeds its workers."""
    import numpy
    import torch

    return {"python": random.getstate(), "numpy": numpy.random.get_state(), "torch": torch.get_rng_state()}


def set_host_state(state: dict[str, Any]) -> None:
    """state: of `host_state`."""
    import numpy
    import torch

    random.setstate(state["python"])
    numpy.random.set_state(state["numpy"])
    torch.set_rng_state(state["torch"])


def rank_state(*, cuda: bool) -> dict[str, Any]:
    """Every generator of this rank. cuda: that of the current device too."""
    import torch

    state = host_state()
    if cuda:
        state["cuda"] = torch.cuda.get_rng_state()
    tracker = _tracker()
    if tracker is not None and tracker.get_states():
        state["checkpointing"] = tracker.get_states()
    return state


def set_rank_state(state: dict[str, Any], *, cuda: bool) -> None:
    """Undo what was drawn since `rank_state`. A generator that the state lacks (another accelerator) stays as it is."""
    import torch

    set_host_state(state)
    if cuda and "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"])
    tracker = _tracker()
    if tracker is not None and "checkpointing" in state:
        tracker.set_states(state["checkpointing"])


def _tracker() -> Any:
    """DeepSpeed's generators for dropout under tensor parallelism; None where it is not loaded or has no GPU."""
    import sys

    module = sys.modules.get("deepspeed.runtime.activation_checkpointing.checkpointing")
    return None if module is None else module.get_cuda_rng_tracker()
