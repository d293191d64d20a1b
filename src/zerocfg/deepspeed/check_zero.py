"""Buckets, ZeRO++, stage-3 fetching, checkpoints of ZeRO."""

from __future__ import annotations

from collections.abc import Iterator

from zerocfg.deepspeed.rules import Finding, rule
from zerocfg.deepspeed.view import View
from zerocfg.diagnostics import Severity

Z = "zero_optimization"


@rule("ZC675", "an odd allgather_bucket_size; ZeRO 1 and 2 raise")
def odd_bucket(view: View) -> Iterator[Finding]:
    path = f"{Z}.allgather_bucket_size"
    size = int(view.number(path))
    if view.stage in (1, 2) and size % 2:
        yield Finding(path, f"must be even at ZeRO stage {view.stage}", hint=view.assign(path, size + 1))


@rule("ZC677", "ZeRO++ settings that do not go together or do not divide")
def zero_plus_plus(view: View) -> Iterator[Finding]:
    if view.stage != 3:
        return
    gradients, weights = f"{Z}.zero_quantized_gradients", f"{Z}.zero_quantized_weights"
    if view.on(gradients) and not view.on(f"{Z}.reduce_scatter"):
        yield Finding(gradients, "needs reduce_scatter", hint=view.assign(f"{Z}.reduce_scatter", True))
    if view.on(weights) and view.on("torch_autocast.enabled"):
        yield Finding(weights, "is refused together with torch_autocast", hint=view.assign("torch_autocast.enabled", False))
    group = int(view.number(f"{Z}.zero_hpz_partition_size"))
    if view.world_size is not None and group > 1 and view.world_size % min(group, view.world_size):
        yield Finding(
            f"{Z}.zero_hpz_partition_size",
            f"does not divide the world size {view.world_size}",
            detail=(f"{view.world_size} / {group} = {view.world_size / group:g}",),
            hint=" or ".join(view.assign(f"{Z}.zero_hpz_partition_size", n) for n in range(2, group + 8) if view.world_size % n == 0)[:200],
        )


@rule("ZC678", "checkpoint settings that raise on save or load at this ZeRO stage")
def zero_checkpoints(view: View) -> Iterator[Finding]:
    elastic, pipeline = f"{Z}.elastic_checkpoint", f"{Z}.pipeline_loading_checkpoint"
    if view.on(elastic) and view.stage == 3:
        yield Finding(
            elastic, "makes saving and loading raise at ZeRO stage 3", hint=f"{view.assign(elastic, False)}; use universal checkpoints"
        )
    if view.on(pipeline) and view.stage in (1, 2):
        yield Finding(pipeline, f"makes loading raise at ZeRO stage {view.stage}", hint=view.assign(pipeline, False))


@rule("ZC679", "a bucket larger than the model: it is allocated whole all the same")
def large_bucket(view: View) -> Iterator[Finding]:
    if view.trainable_params is None or view.stage == 0:
        return
    width = 4 if view.precision == "fp32" else 2
    path = f"{Z}.reduce_bucket_size"
    size = int(view.number(path))
    if size > view.trainable_params and view.on(f"{Z}.contiguous_gradients"):
        copies = 2 if view.overlap_comm and view.stage < 3 else 1
        held = size * width * copies
        yield Finding(
            path,
            f"is larger than the model, {view.trainable_params} trainable parameters",
            detail=(f"{size} elements x {width} bytes x {copies} = {held / 2**30:.2f} GiB on each GPU, whatever the model's size",),
            hint=view.assign(path, view.trainable_params),
            severity=Severity.WARNING,
            value=size,
        )


@rule("ZC680", "a prefetch bucket that sequential gathering replaces by 1")
def sequential_gather(view: View) -> Iterator[Finding]:
    path = f"{Z}.stage3_prefetch_bucket_size"
    if view.stage == 3 and view.on(f"{Z}.stage3_allgather_sequential") and view.has(path) and view.value(path) != 1:
        yield Finding(path, "becomes 1: stage3_allgather_sequential is on", hint=f"remove {view.full(path)}", severity=Severity.WARNING)
