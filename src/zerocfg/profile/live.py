"""Bytes of live tensors and the work that makes them, followed operator by operator. Works on real tensors and on torch's fake ones."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from zerocfg.memory.operations import NORM_PASSES
from zerocfg.traced import Operations

NORM_WEIGHT = NORM_PASSES / 5
"""A normalization reads and writes five tensors, forward and backward; its kernels take as long as NORM_PASSES would."""
_NO_KERNEL = ("empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided", "detach", "alias", "_unsafe_view")


@dataclass
class Tally:
    """Work of one part of the model, of all samples."""

    matmul_flops: float = 0.0
    attention_flops: float = 0.0
    traffic_bytes: float = 0.0
    launches: int = 0
    forward_flops: float = 0.0
    forward_launches: int = 0

    def of_samples(self, samples: int) -> Operations:
        return Operations(
            matmul_flops=self.matmul_flops / samples,
            attention_flops=self.attention_flops / samples,
            traffic_bytes=self.traffic_bytes / samples,
            launches=float(self.launches),
            forward_flops=self.forward_flops / samples,
            forward_launches=float(self.forward_launches),
        )


def live_bytes(*, work: bool = False) -> Any:
    """A dispatch mode that adds up the storages which operators make, and takes off those that Python and autograd let go.

    Attributes: now, peak (bytes). Methods: ignore(tensors): never count these; count(tensors): count these although they were made
    before; restart(): peak = now. With `work` it also tallies operators into `tally`, which may be replaced as the run goes on;
    forward: whether they are the forward pass's; attention(flops), norm(bytes): for kernels that are stood in for.
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
            self.tally = Tally()
            self.forward = True

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

        def attention(self, flops: float) -> None:
            self.tally.attention_flops += flops
            self._launched(flops)

        def norm(self, moved: float) -> None:
            self.tally.traffic_bytes += NORM_WEIGHT * moved
            self._launched(0.0)

        def _launched(self, flops: float) -> None:
            self.tally.launches += 1
            if self.forward:
                self.tally.forward_launches += 1
                self.tally.forward_flops += flops

        def _tally(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
            name = func._overloadpacket.__name__
            if (formula := flop_registry.get(func._overloadpacket)) is not None:
                flops = float(formula(*args, **kwargs, out_val=out))
                if "attention" in name:
                    self.attention(flops)
                else:
                    self.tally.matmul_flops += flops
                    self._launched(flops)
                return
            if func.namespace == "prim" or func.is_view or name in _NO_KERNEL:
                return
            made = _bytes(tree_iter(out))
            # of a table only the rows that are looked up are read
            moved = 2 * made if name == "embedding" else made + _bytes(tree_iter((args, kwargs)))
            if "layer_norm" in name or "rms_norm" in name:
                self.norm(moved)
            else:
                self.tally.traffic_bytes += moved
                self._launched(0.0)

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = func(*args, **(kwargs or {}))
            self.count(tree_iter(out))
            if work:
                self._tally(func, args, kwargs or {}, out)
            return out

    def _bytes(values: Iterable[Any]) -> int:
        return sum(value.numel() * value.element_size() for value in values if isinstance(value, torch.Tensor))

    return LiveBytes()
