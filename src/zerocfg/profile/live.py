"""Bytes of live tensors, followed operator by operator. Works on real tensors and on torch's fake ones."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any


def live_bytes(*, flops: bool = False) -> Any:
    """A dispatch mode that adds up the storages which operators make, and takes off those that Python and autograd let go.

    Attributes: now, peak (bytes), flops (of matrix products, when asked for). Methods: ignore(tensors): never count these;
    count(tensors): count these although they were made before; restart(): peak = now.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_iter
    from torch.utils.flop_counter import flop_registry

    class LiveBytes(TorchDispatchMode):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self._sizes: dict[int, int] = {}
            self.now = 0
            self.peak = 0
            self.flops = 0.0

        def ignore(self, tensors: Iterable[Any]) -> None:
            for tensor in tensors:
                self._sizes[tensor.untyped_storage()._cdata] = 0

        def count(self, tensors: Iterable[Any]) -> None:
            for tensor in tensors:
                if not isinstance(tensor, torch.Tensor) or tensor.is_meta:
                    continue
                storage = tensor.untyped_storage()
                key = storage._cdata
                if key in self._sizes:
                    continue
                size = storage.nbytes()
                self._sizes[key] = size
                self.now += size
                # a storage's Python object lives as long as the storage itself
                weakref.finalize(storage, self._gone, key)
            self.peak = max(self.peak, self.now)

        def _gone(self, key: int) -> None:
            self.now -= self._sizes.pop(key, 0)

        def restart(self) -> None:
            self.peak = self.now

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = func(*args, **(kwargs or {}))
            self.count(tree_iter(out))
            if flops and (formula := flop_registry.get(func._overloadpacket)) is not None:
                self.flops += formula(*args, **(kwargs or {}), out_val=out)
            return out

    return LiveBytes()
