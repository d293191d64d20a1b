"""The plans that are compared: changes to a config, and the overrides that make them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from zerocfg.facts import HardwareFacts
from zerocfg.schema import RunConfig
from zerocfg.schema.types import DType, OffloadDevice
from zerocfg.sizes import SWAPPED_SUB_GROUP, WALKS, Shape

SMALL_BUCKET = 50_000_000
"""Elements. The last bucket of the backward pass has no compute left beside it, and each bucket takes memory twice."""
TIGHT = 2 * SMALL_BUCKET
"""Parameters that are live at a time where memory is short: a block or two."""
MICRO_BATCHES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""Tried where no global batch is asked for."""
LARGEST_MICRO_BATCH = 4096
"""Larger ones are not looked for, however large the global batch is."""

NONE, CPU, NVME = OffloadDevice.none, OffloadDevice.cpu, OffloadDevice.nvme
_OFFLOADS = {"none": (NONE, NONE), "optimizer": (CPU, NONE), "all": (CPU, CPU), "optimizer_nvme": (NVME, NONE), "all_nvme": (NVME, NVME)}
"""Option of the group offload -> optimizer, param."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Axes:
    """What the planner may choose."""

    stage: bool = True
    offload: tuple[str, ...] = ("optimizer", "param")
    """Fields of the group."""
    checkpointing: bool = True
    micro_batch: bool = True
    sizes: bool = True
    """Bucket sizes and hpZ, as far as the config leaves them null."""
    precision: bool = False
    """fp16 in place of bf16 where the GPU has none."""

    @property
    def paths(self) -> frozenset[str]:
        """Config fields that are the planner's."""
        named = {
            "parallelism.stage": self.stage,
            "activation_checkpointing.enabled": self.checkpointing,
            "batch.micro_batch_size": self.micro_batch,
            "precision.dtype": self.precision,
        }
        return frozenset({path for path, free in named.items() if free} | {f"offload.{name}" for name in self.offload})

    @property
    def micro_batch_only(self) -> bool:
        return self.micro_batch and not (self.stage or self.offload or self.checkpointing)


@dataclass(frozen=True, slots=True)
class Candidate:
    changes: Mapping[str, Any]
    """Config path -> value."""
    overrides: tuple[str, ...]
    labels: tuple[str, ...] = field(default=())

    def also(self, overrides: tuple[str, ...], changes: Mapping[str, Any]) -> Candidate:
        return Candidate({**self.changes, **changes}, (*self.overrides, *overrides), self.labels)


def changed(config: RunConfig, changes: Mapping[str, Any]) -> RunConfig:
    """`config` with other values; the given one stays as it is."""
    groups: dict[str, dict[str, Any]] = {}
    for path, value in changes.items():
        group, _, name = path.partition(".")
        groups.setdefault(group, {})[name] = value
    return replace(config, **{group: replace(getattr(config, group), **values) for group, values in groups.items()})


def value_at(config: RunConfig, path: str) -> Any:
    group, _, name = path.partition(".")
    return getattr(getattr(config, group), name)


def candidates(config: RunConfig, hardware: HardwareFacts, axes: Axes, shape: Shape) -> Iterator[Candidate]:
    """Every combination that could make sense; micro batches are tried by whoever ranks them. shape: of the model."""
    for base in _precision(config, hardware, axes):
        for staged in _stages(config, base, axes):
            for moved in _offloads(config, hardware, staged, axes):
                for recomputed in _checkpointing(moved, axes):
                    yield from _sizes(config, hardware, recomputed, axes, shape)


def _precision(config: RunConfig, hardware: HardwareFacts, axes: Axes) -> Iterator[Candidate]:
    lacks = hardware.is_cuda and hardware.compute_capability < (8, 0)
    if axes.precision and lacks and config.precision.dtype is DType.bf16:
        changes = {"precision.dtype": DType.fp16, "precision.tf32": False, "precision.master_dtype": DType.fp32}
        yield Candidate(changes, ("precision=fp16",))
    else:
        yield Candidate({}, ())


def _stages(config: RunConfig, base: Candidate, axes: Axes) -> Iterator[Candidate]:
    if not axes.stage:
        yield base
        return
    for stage in range(4):
        yield base.also((f"parallelism={f'zero{stage}' if stage else 'ddp'}",), {"parallelism.stage": stage})


def _offloads(config: RunConfig, hardware: HardwareFacts, base: Candidate, axes: Axes) -> Iterator[Candidate]:
    if not axes.offload:
        yield base
        return
    stage = int(base.changes.get("parallelism.stage", config.parallelism.stage) or 0)
    options = ["none"]
    if stage and hardware.is_cuda:
        options += ["optimizer", "all"] if stage == 3 else ["optimizer"]
        if stage == 3 and config.offload.nvme_path:
            options += ["optimizer_nvme", "all_nvme"]
    for option in options:
        devices = dict(zip(("optimizer", "param"), _OFFLOADS[option], strict=True))
        if any(device != getattr(config.offload, name) for name, device in devices.items() if name not in axes.offload):
            continue  # of the two one is asked for, and otherwise
        changes: dict[str, Any] = {f"offload.{name}": device for name, device in devices.items()}
        words: tuple[str, ...] = (f"offload={option}",)
        if "nvme" in option and config.parallelism.sub_group_size is None:
            changes["parallelism.sub_group_size"] = SWAPPED_SUB_GROUP
            words += (f"parallelism.sub_group_size={SWAPPED_SUB_GROUP}",)
        yield base.also(words, changes)


def _checkpointing(base: Candidate, axes: Axes) -> Iterator[Candidate]:
    if not axes.checkpointing:
        yield base
        return
    for option, enabled in (("none", False), ("full", True)):
        yield base.also((f"activation_checkpointing={option}",), {"activation_checkpointing.enabled": enabled})


def _sizes(config: RunConfig, hardware: HardwareFacts, base: Candidate, axes: Axes, shape: Shape) -> Iterator[Candidate]:
    yield base
    asked = config.parallelism
    stage = int(base.changes.get("parallelism.stage", asked.stage) or 0)
    if not axes.sizes or not stage:
        return
    if stage < 3 and asked.reduce_bucket_size is None and asked.allgather_bucket_size is None:
        # a gather as large as the default costs no memory of its own: weights are gathered in place
        yield base.also((f"parallelism.reduce_bucket_size={SMALL_BUCKET}",), {"parallelism.reduce_bucket_size": SMALL_BUCKET})
    if stage == 3 and asked.stage3_max_live_parameters is None and asked.stage3_max_reuse_distance is None:
        # a block or two, for cards with little memory; and all weights, where there is more room than the rule asks for
        for live, reuse in ((TIGHT, TIGHT), (shape.whole, WALKS * shape.whole)):
            limits = {"parallelism.stage3_max_live_parameters": live, "parallelism.stage3_max_reuse_distance": reuse}
            sized = base.also(tuple(f"{path}={value}" for path, value in limits.items()), limits)
            yield sized
            if live < shape.block and asked.leaf_module_classes is None:
                # a block that is over the limit by itself leaves no room for fetching ahead; its parts may
                yield sized.also(("parallelism.leaf_module_classes=[]",), {"parallelism.leaf_module_classes": []})
    if stage == 3 and hardware.num_nodes > 1 and asked.zero_hpz_partition_size is None:
        node = hardware.gpus_per_node
        yield base.also((f"parallelism.zero_hpz_partition_size={node}",), {"parallelism.zero_hpz_partition_size": node})
