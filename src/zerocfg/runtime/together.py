"""Work of rank 0 that the others wait for, however long it takes, outside of any collective and its timeout."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable
from itertools import count
from typing import Any, TypeVar

from zerocfg.errors import ZerocfgError

T = TypeVar("T")
_POLL_SECONDS = 0.1
_numbers = count()
"""All ranks call `rank_0_does` in the same order, so that the n-th call of each is the same one."""


def rank_0_does(rank: int, work: Callable[[], T]) -> T:
    """All ranks: rank 0's result, on every rank. A ZerocfgError of rank 0 is raised on every rank; other errors on rank 0 alone.

    The result is pickled. Without a process group: plain `work()`.
    """
    import torch

    dist = torch.distributed
    number = next(_numbers)
    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1:
        return work()
    store: Any = dist.distributed_c10d._get_default_store()
    # a store may outlive a restart
    key = f"zerocfg/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}/rank_0/{number}"
    if rank == 0:
        try:
            result = work()
        except ZerocfgError as error:
            store.set(key, pickle.dumps((False, error)))
            raise
        store.set(key, pickle.dumps((True, result)))
        return result
    while not store.check([key]):
        time.sleep(_POLL_SECONDS)
    well, value = pickle.loads(store.get(key))
    if not well:
        raise value
    made: T = value
    return made
