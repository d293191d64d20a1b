"""What the ranks train on, looked at once a start: each has samples of its own, and as many as the plan says."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zerocfg.diagnostics import Diagnostic, Severity
from zerocfg.plan import Plan

if TYPE_CHECKING:
    from zerocfg.runtime.run import Run

_ELEMENTS = 1 << 20
"""Of a tensor that are looked at."""
log = logging.getLogger("zerocfg")


def fingerprint(batch: Any) -> float:
    """Of what a micro batch's tensors hold: 48 bits, which float64 holds exactly. 0: it has no tensors."""
    import torch

    digest = hashlib.blake2b(digest_size=6)
    some = False
    for tensor in _tensors(batch, torch.Tensor):
        if tensor.layout is torch.strided and tensor.numel():
            some = True
            digest.update(tensor.detach().reshape(-1)[:_ELEMENTS].contiguous().cpu().view(torch.uint8).numpy())
    return float(int.from_bytes(digest.digest(), "big")) if some else 0.0


def _tensors(batch: Any, kind: type) -> Iterator[Any]:
    if isinstance(batch, kind):
        yield batch
    elif isinstance(batch, Mapping):
        for value in batch.values():
            yield from _tensors(value, kind)
    elif isinstance(batch, (list, tuple)):
        for value in batch:
            yield from _tensors(value, kind)


def tell(run: Run, batches: Iterable[Any]) -> None:
    """Before the first step: ZC787 of a loader with a batch size of its own."""
    if run.rank == 0:
        _warn(check_size(getattr(batches, "batch_size", None), run.plan))


def compare(run: Run, mine: float) -> None:
    """After the first step, all ranks in step: ZC786. mine: fingerprint of this rank's first micro batch."""
    import torch

    dist = torch.distributed
    if run.data_parallel_size == 1 or not (dist.is_available() and dist.is_initialized()):
        return
    # the sum of what is everywhere 0 but in each rank's own place
    all_of_them = torch.zeros(dist.get_world_size(), dtype=torch.float64, device=run.device)
    all_of_them[dist.get_rank()] = mine
    dist.all_reduce(all_of_them)
    if run.rank == 0:
        _warn(check_own(all_of_them.tolist(), run.plan))


def check_own(fingerprints: Sequence[float], plan: Plan) -> Iterator[Diagnostic]:
    """fingerprints: by rank. Ranks that share a model or a sequence are neighbours, and one reader of the data."""
    together = len(fingerprints) // plan.topology.data_parallel_size
    readers: dict[tuple[float, ...], list[int]] = {}
    for first in range(0, len(fingerprints), together):
        readers.setdefault(tuple(fingerprints[first : first + together]), []).append(first)
    for seen, ranks in readers.items():
        if len(ranks) > 1 and all(seen):
            which = f"all {len(fingerprints)} ranks" if len(readers) == 1 else f"ranks {', '.join(map(str, ranks))}"
            yield Diagnostic(
                code="ZC786",
                severity=Severity.WARNING,
                path="batch.global_batch_size",
                message=f"{which} train on the same samples: what they compute is the same",
                detail=(
                    "their first micro batches are equal; batch.global_batch_size="
                    f"{plan.batch.global_batch_size} counts them {len(ranks)} times",
                ),
                hint="DataLoader(data, sampler=DistributedSampler(data, run.data_parallel_size, run.data_parallel_rank), ...)",
            )


def check_size(size: object, plan: Plan) -> Iterator[Diagnostic]:
    """size: batch_size of a DataLoader. None (a batch_sampler decides, or it is no DataLoader): not known."""
    batch = plan.batch
    if isinstance(size, int) and size != batch.micro_batch_size:
        steps, readers = batch.gradient_accumulation_steps, batch.data_parallel_size
        yield Diagnostic(
            code="ZC787",
            severity=Severity.WARNING,
            path="batch.micro_batch_size",
            message=f"the loader has batch_size={size}, the plan batch.micro_batch_size={batch.micro_batch_size}",
            detail=(
                f"a step takes {size} x {steps} x {readers} = {size * steps * readers} samples,"
                f" not batch.global_batch_size={batch.global_batch_size}",
            ),
            hint=f"DataLoader(data, batch_size=run.plan.batch.micro_batch_size), or batch.micro_batch_size={size}",
        )


def _warn(found: Iterable[Diagnostic]) -> None:
    for diagnostic in found:
        log.warning("%s", diagnostic.render())
