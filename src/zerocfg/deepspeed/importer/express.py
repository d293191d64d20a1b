"""DeepSpeed leaves -> group options and config values, so that compiling them gives the same leaves back.

Each step takes what its group can say out of the leaves; what is left goes under `deepspeed`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from zerocfg.deepspeed.importer.draft import Draft
from zerocfg.deepspeed.importer.plan_rules import DTYPES

ZERO = "zero_optimization"
_LARGEST = 2**63 - 1

_FLAGS = ("overlap_comm", "contiguous_gradients", "reduce_scatter", "round_robin_gradients")
_STAGE_3_FLAGS = ("stage3_gather_16bit_weights_on_model_save", "zero_quantized_weights", "zero_quantized_gradients")
SIZES: dict[str, tuple[tuple[int, ...], int]] = {
    "reduce_bucket_size": ((1, 2, 3), 500_000_000),
    "allgather_bucket_size": ((1, 2), 500_000_000),
    "stage3_prefetch_bucket_size": ((3,), 50_000_000),
    "stage3_param_persistence_threshold": ((3,), 100_000),
    "stage3_max_live_parameters": ((3,), 1_000_000_000),
    "stage3_max_reuse_distance": ((3,), 1_000_000_000),
    "sub_group_size": ((3,), 1_000_000_000),
}
"""Field -> (stages that read it, DeepSpeed's default). Where a model is described, zerocfg would choose another one."""
_OFFLOAD = {
    "offload_optimizer": {
        "buffer_count": "optimizer_buffer_count",
        "pipeline_read": "pipeline_read",
        "pipeline_write": "pipeline_write",
        "ratio": "ratio",
    },
    "offload_param": {"buffer_count": "param_buffer_count", "buffer_size": "param_buffer_size", "max_in_cpu": "param_max_in_cpu"},
}
_NVME_DEFAULTS = {"param_buffer_size": 100_000_000, "param_max_in_cpu": 1_000_000_000}
_OFFLOAD_OPTION = {
    ("none", "none"): "none",
    ("cpu", "none"): "optimizer",
    ("cpu", "cpu"): "all",
    ("nvme", "none"): "optimizer_nvme",
    ("nvme", "nvme"): "all_nvme",
}
"""(optimizer, param) -> option."""
_ON_BY_RULE = ("pipeline_read", "pipeline_write")
"""Off in DeepSpeed, on in zerocfg, with an nvme optimizer."""
_LOSS_SCALE = {"loss_scale": 0, "initial_scale_power": 0, "loss_scale_window": 1, "hysteresis": 1, "min_loss_scale": 1}
"""fp16 field -> its least value in the group `precision`."""
_ACTIVATION = (
    "partition_activations",
    "cpu_checkpointing",
    "contiguous_memory_optimization",
    "synchronize_checkpoint_boundary",
    "profile",
)
_BATCH = {
    "train_batch_size": "global_batch_size",
    "train_micro_batch_size_per_gpu": "micro_batch_size",
    "gradient_accumulation_steps": "gradient_accumulation_steps",
}


@dataclass
class Expression:
    """Group options and values found so far, and which leaves they say."""

    draft: Draft
    described: bool
    """A model is described, so that sizes left open would follow from it."""
    groups: dict[str, str] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)
    """JSON path -> the override that says it."""

    @property
    def left(self) -> dict[str, Any]:
        return self.draft.leaves

    def take(self, path: str, says: str) -> Any:
        self.said[path] = says
        return self.left.pop(path)

    def move(self, path: str, to: str) -> None:
        """Say a leaf as a value, if it is there and a value of the config can hold it."""
        value = self.left.get(path)
        if value is not None and not (isinstance(value, int) and abs(value) > _LARGEST):
            self.values[to] = self.take(path, to)

    @property
    def stage(self) -> int:
        return int(self.groups["parallelism"].removeprefix("zero").replace("ddp", "0"))

    @property
    def dtype(self) -> str:
        return self.groups["precision"].partition("_")[0]


def express(to: Expression, further: tuple[Callable[[Expression], None], ...] = ()) -> None:
    """Take every leaf out of the draft that a group can say. further: the steps of other groups, after these."""
    for step in (_stage, _offload, _precision, _batch, _parallel, _sizes, _activation, *further):
        step(to)


def _stage(to: Expression) -> None:
    stage = to.left.get(f"{ZERO}.stage", 0)
    to.groups["parallelism"] = {0: "ddp", 1: "zero1", 2: "zero2", 3: "zero3"}[int(stage)]
    if f"{ZERO}.stage" in to.left:
        to.take(f"{ZERO}.stage", f"parallelism={to.groups['parallelism']}")


def _offload(to: Expression) -> None:
    devices = {section: str(to.left.get(f"{ZERO}.{section}.device", "none")) for section in _OFFLOAD}
    option = _OFFLOAD_OPTION.get((devices["offload_optimizer"], devices["offload_param"]))
    to.groups["offload"] = option or "none"
    if option is None:
        to.values["offload.optimizer"], to.values["offload.param"] = devices.values()
    for section, device in devices.items():
        field_name = section.removeprefix("offload_")
        if f"{ZERO}.{section}.device" in to.left:
            to.take(f"{ZERO}.{section}.device", f"offload={option}" if option else f"offload.{field_name}={device}")
    _shared(to, devices, "pin_memory", True, lambda device: device != "none")
    _shared(to, devices, "nvme_path", None, lambda device: device == "nvme")
    for section, fields in _OFFLOAD.items():
        for name, ours in fields.items():
            path = f"{ZERO}.{section}.{name}"
            if path in to.left and (name != "buffer_count" or to.left[path] >= 1) and (name != "buffer_size" or to.left[path] >= 1):
                to.move(path, f"offload.{ours}")
            elif devices[section] == "nvme" and path not in to.left:
                if ours in _ON_BY_RULE:
                    to.values[f"offload.{ours}"] = False
                elif to.described and ours in _NVME_DEFAULTS:
                    to.values[f"offload.{ours}"] = _NVME_DEFAULTS[ours]


def _shared(to: Expression, devices: Mapping[str, str], name: str, default: Any, concerns: Callable[[str], bool]) -> None:
    """A value that both sections have and the group once: said there for the first, kept for a second that differs."""
    paths = [f"{ZERO}.{section}.{name}" for section, device in devices.items() if concerns(device)]
    values = [to.left.get(path, default) for path in paths]
    for path, value in zip(paths, values, strict=True):
        if value != values[0]:
            to.left[path] = value
        elif path in to.left:
            to.take(path, f"offload.{name}")
    if values and values[0] != default:
        to.values[f"offload.{name}"] = values[0]


def _precision(to: Expression) -> None:
    on = {name: to.left.get(f"{name}.enabled") is True for name in ("fp16", "bf16")}
    option = "fp16" if on["fp16"] else "bf16" if on["bf16"] else "fp32"
    lowmem = [f"bf16.{name}" for name in ("bf16_master_weights_and_grads", "bf16_optimizer_states")]
    low = [to.left.get(path) is True for path in lowmem]
    if on["bf16"] and all(low):
        option = "bf16_lowmem"
    to.groups["precision"] = option
    for path in [*lowmem, *(f"{name}.enabled" for name in on)]:
        if path in to.left:
            to.take(path, f"precision={option}")
    if on["fp16"]:
        for name, least in _LOSS_SCALE.items():
            path = f"fp16.{name}"
            if path in to.left and to.left[path] >= least:
                to.move(path, f"precision.{name}")
    _accumulation(to)
    _communication(to)


def _accumulation(to: Expression) -> None:
    path = "data_types.grad_accum_dtype"
    if path not in to.left:
        return
    name = DTYPES[str(to.left[path]).removeprefix("torch.")]
    to.take(path, "precision.grad_accum_dtype")
    if name != to.dtype:
        to.values["precision.grad_accum_dtype"] = name


def _communication(to: Expression) -> None:
    """What reduces gradients: another key with sequence parallelism. The group leaves out what is the model's own type."""
    sequence = _degree(to.left.get("sequence_parallel_size")) > 1 and "data_parallel_size" in to.left
    path = "seq_parallel_communication_data_type" if sequence else "communication_data_type"
    if path not in to.left:
        return
    name = str(to.left[path]).lower()
    if sequence or name != to.dtype:
        to.take(path, "precision.communication_data_type")
        to.values["precision.communication_data_type"] = name


def _batch(to: Expression) -> None:
    given = [path for path in _BATCH if path in to.left]
    for path in given:
        to.move(path, f"batch.{_BATCH[path]}")
    if given == ["train_batch_size"]:
        to.values["batch.gradient_accumulation_steps"] = 1  # DeepSpeed takes one step then (config.py:640)


def _degree(value: Any) -> int:
    return value if isinstance(value, int) else 1


def _parallel(to: Expression) -> None:
    if "tensor_parallel.autotp_size" in to.left:
        to.move("tensor_parallel.autotp_size", "parallelism.tensor_parallel_degree")
    if "sequence_parallel_size" in to.left and ("data_parallel_size" in to.left or to.left["sequence_parallel_size"] == 1):
        size = to.take("sequence_parallel_size", "parallelism.sequence_parallel_degree")
        if size > 1:
            to.values["parallelism.sequence_parallel_degree"] = size
        if "data_parallel_size" in to.left:
            to.take("data_parallel_size", "world size / parallelism.sequence_parallel_degree")


def _sizes(to: Expression) -> None:
    for name in (*_FLAGS, *_STAGE_3_FLAGS):
        to.move(f"{ZERO}.{name}", f"parallelism.{name}")
    if to.stage in (1, 2):
        to.values.setdefault("parallelism.overlap_comm", False)  # DeepSpeed's default there; the group's is true
    for name, (stages, default) in SIZES.items():
        path = f"{ZERO}.{name}"
        if path in to.left:
            to.move(path, f"parallelism.{name}")
        elif to.described and to.stage in stages and not _left_to_rule(to.draft, path):
            to.values[f"parallelism.{name}"] = default
    if to.left.get(f"{ZERO}.zero_hpz_partition_size") == 1:
        to.take(f"{ZERO}.zero_hpz_partition_size", "parallelism.zero_hpz_partition_size is off")
    to.move(f"{ZERO}.zero_hpz_partition_size", "parallelism.zero_hpz_partition_size")
    classes = to.left.get(f"{ZERO}.leaf_module.classes")
    if isinstance(classes, list) and classes:
        to.move(f"{ZERO}.leaf_module.classes", "parallelism.leaf_module_classes")
    elif to.stage == 3:
        to.values["parallelism.leaf_module_classes"] = []  # left open, the run would make leaves of the repeated blocks


def _left_to_rule(draft: Draft, path: str) -> bool:
    """It was "auto": the model's dims decide."""
    spelled = draft.sources.get(path, "")
    return draft.migrated.get(spelled, ("", ""))[0] == "ZC904"


def _activation(to: Expression) -> None:
    section = "activation_checkpointing"
    on = [name for name in _ACTIVATION if to.left.get(f"{section}.{name}") is True]
    to.groups[section] = "full" if on else "none"
    for name in _ACTIVATION:
        path = f"{section}.{name}"
        if path in to.left:
            value = to.take(path, path if name in on else f"{section}={to.groups[section]}")
            if value:
                to.values[path] = value
    to.move(f"{section}.number_checkpoints", f"{section}.number_checkpoints")
