"""DeepSpeed leaves -> group options and config values, so that compiling them gives the same leaves back.

Each `_Section` method takes what it can say out of the draft; what is left goes under `deepspeed`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from zerocfg.deepspeed.importer.migrate import Draft
from zerocfg.deepspeed.keys import optimizer_params, scheduler_params
from zerocfg.passes.resolve.optimizer import ACCEPTED
from zerocfg.passes.resolve.scheduler import TYPES

_ZERO = "zero_optimization"

# JSON leaf -> config path, value unchanged
SAME: dict[str, str] = {
    "gradient_clipping": "optimizer.gradient_clipping",
    "communication_data_type": "precision.communication_data_type",
    "tensor_parallel.autotp_size": "parallelism.tensor_parallel_degree",
    f"{_ZERO}.leaf_module.classes": "parallelism.leaf_module_classes",
    **{
        f"{_ZERO}.{name}": f"parallelism.{name}"
        for name in (
            "overlap_comm",
            "contiguous_gradients",
            "reduce_scatter",
            "reduce_bucket_size",
            "allgather_bucket_size",
            "round_robin_gradients",
            "stage3_prefetch_bucket_size",
            "stage3_param_persistence_threshold",
            "stage3_max_live_parameters",
            "stage3_max_reuse_distance",
            "stage3_gather_16bit_weights_on_model_save",
            "sub_group_size",
            "zero_hpz_partition_size",
            "zero_quantized_weights",
            "zero_quantized_gradients",
        )
    },
    **{
        f"fp16.{name}": f"precision.{name}"
        for name in ("loss_scale", "initial_scale_power", "loss_scale_window", "hysteresis", "min_loss_scale")
    },
}
_OFFLOAD = {
    "offload_optimizer": {
        "buffer_count": "optimizer_buffer_count",
        "pipeline_read": "pipeline_read",
        "pipeline_write": "pipeline_write",
        "ratio": "ratio",
    },
    "offload_param": {"buffer_count": "param_buffer_count", "buffer_size": "param_buffer_size", "max_in_cpu": "param_max_in_cpu"},
}
_ACTIVATION = (
    "partition_activations",
    "cpu_checkpointing",
    "contiguous_memory_optimization",
    "number_checkpoints",
    "synchronize_checkpoint_boundary",
    "profile",
)
_DTYPES = {
    "fp16": "fp16",
    "float16": "fp16",
    "half": "fp16",
    "bf16": "bf16",
    "bfloat16": "bf16",
    "fp32": "fp32",
    "float32": "fp32",
    "float": "fp32",
}
_OPTION = {"": "none", "WarmupLR": "warmup_lr", "WarmupDecayLR": "warmup_decay", "WarmupCosineLR": "warmup_cosine", "OneCycle": "one_cycle"}
_OFFLOAD_OPTION = {
    ("none", "none"): "none",
    ("cpu", "none"): "optimizer",
    ("cpu", "cpu"): "all",
    ("nvme", "none"): "optimizer_nvme",
    ("nvme", "nvme"): "all_nvme",
}
# DeepSpeed's defaults where the group's option says something else
_SCHEDULER_DEFAULTS = (
    "warmup_min_lr",
    "warmup_max_lr",
    "warmup_num_steps",
    "warmup_type",
    "warmup_min_ratio",
    "cos_min_ratio",
    "cycle_first_step_size",
)


class Expression:
    """Group options and values found so far, and which leaves they say."""

    def __init__(self, draft: Draft) -> None:
        self.left: dict[str, Any] = dict(draft.leaves)
        self.groups: dict[str, str] = {}
        self.values: dict[str, Any] = {}
        self.said: dict[str, str] = {}
        """JSON path -> the override that says it."""
        for step in (
            self._zero,
            self._offload,
            self._precision,
            self._batch,
            self._parallel,
            self._optimizer,
            self._scheduler,
            self._activation,
            self._same,
        ):
            step()

    def _take(self, path: str, says: str) -> Any:
        self.said[path] = says
        return self.left.pop(path)

    def _move(self, path: str, to: str) -> None:
        if path in self.left:
            self.values[to] = self._take(path, to)

    def _zero(self) -> None:
        stage = self.left.get(f"{_ZERO}.stage", 0)
        self.groups["parallelism"] = {0: "ddp", 1: "zero1", 2: "zero2", 3: "zero3"}[int(stage)]
        if f"{_ZERO}.stage" in self.left:
            self._take(f"{_ZERO}.stage", f"parallelism={self.groups['parallelism']}")

    def _offload(self) -> None:
        devices = tuple(str(self.left.get(f"{_ZERO}.{section}.device", "none")) for section in _OFFLOAD)
        option = _OFFLOAD_OPTION.get((devices[0], devices[1]))
        self.groups["offload"] = option or "none"
        if option is None:
            self.values["offload.optimizer"], self.values["offload.param"] = devices
        says = f"offload={self.groups['offload']}"
        pins: dict[str, bool] = {}
        paths: set[str] = set()
        for section, device in zip(_OFFLOAD, devices, strict=True):
            base = f"{_ZERO}.{section}"
            if f"{base}.device" in self.left:
                self._take(f"{base}.device", says)
            if device == "none":
                continue
            pins[section] = self.left.get(f"{base}.pin_memory", True)
            if device == "nvme" and f"{base}.nvme_path" in self.left:
                paths.add(str(self.left[f"{base}.nvme_path"]))
            for name, field in _OFFLOAD[section].items():
                if device == "nvme" or name == "ratio":
                    self._move(f"{base}.{name}", f"offload.{field}")
        if len(set(pins.values())) == 1:
            pin = next(iter(pins.values()))
            if pin is not True:
                self.values["offload.pin_memory"] = pin
            for section in pins:
                if f"{_ZERO}.{section}.pin_memory" in self.left:
                    self._take(f"{_ZERO}.{section}.pin_memory", "offload.pin_memory")
        if len(paths) == 1:
            self.values["offload.nvme_path"] = paths.pop()
            for section, device in zip(_OFFLOAD, devices, strict=True):
                if device == "nvme" and f"{_ZERO}.{section}.nvme_path" in self.left:
                    self._take(f"{_ZERO}.{section}.nvme_path", "offload.nvme_path")

    def _precision(self) -> None:
        on = {name: self.left.get(f"{name}.enabled") is True for name in ("fp16", "bf16")}
        option = "fp16" if on["fp16"] else "bf16" if on["bf16"] else "fp32"
        lowmem = [f"bf16.{name}" for name in ("bf16_master_weights_and_grads", "bf16_optimizer_states")]
        if on["bf16"] and all(self.left.get(path) is True for path in lowmem):
            option = "bf16_lowmem"
            for path in lowmem:
                self._take(path, "precision=bf16_lowmem")
        self.groups["precision"] = option
        for name in on:
            if f"{name}.enabled" in self.left:
                self._take(f"{name}.enabled", f"precision={option}")
        path = "data_types.grad_accum_dtype"
        if path in self.left and self.left[path] in _DTYPES:
            self.values["precision.grad_accum_dtype"] = _DTYPES[self._take(path, "precision.grad_accum_dtype")]

    def _batch(self) -> None:
        names = {
            "train_batch_size": "batch.global_batch_size",
            "train_micro_batch_size_per_gpu": "batch.micro_batch_size",
            "gradient_accumulation_steps": "batch.gradient_accumulation_steps",
        }
        given = [path for path in names if path in self.left]
        for path in given:
            self._move(path, names[path])
        if "train_batch_size" in given and len(given) == 1:
            # DeepSpeed then takes one accumulation step (config.py:640)
            self.values["batch.gradient_accumulation_steps"] = 1

    def _parallel(self) -> None:
        if "sequence_parallel_size" in self.left and "data_parallel_size" in self.left:
            self._move("sequence_parallel_size", "parallelism.sequence_parallel_degree")
            self._take("data_parallel_size", "world size / degrees")

    def _optimizer(self) -> None:
        name = str(self.left.get("optimizer.type", ""))
        kind = name.lower()
        if kind not in ACCEPTED:
            self.groups["optimizer"] = "none"
            return
        self.groups["optimizer"] = kind
        self._take("optimizer.type", f"optimizer={kind}")
        offloaded = self.groups["offload"] != "none" or self.values.get("offload.optimizer", "none") != "none"
        defaults = optimizer_params(kind, offloaded) or {}
        for field in ACCEPTED[kind]:
            path = f"optimizer.params.{field}"
            if path in self.left:
                self._move(path, f"optimizer.{field}")
            elif field in defaults and field in ("lr", "weight_decay", "betas", "eps"):
                value = defaults[field].default
                self.values[f"optimizer.{field}"] = list(value) if isinstance(value, tuple) else value
            elif field == "adam_w_mode":
                self.values["optimizer.adam_w_mode"] = None
            elif field == "momentum":
                self.values["optimizer.momentum"] = None

    def _scheduler(self) -> None:
        name = str(self.left.get("scheduler.type", ""))
        if name not in TYPES:
            self.groups["scheduler"] = "none"
            return
        self.groups["scheduler"] = _OPTION[name]
        self._take("scheduler.type", f"scheduler={_OPTION[name]}")
        for field, key in (scheduler_params(name) or {}).items():
            path = f"scheduler.params.{field}"
            if path in self.left:
                if field in _CONFIG_SCHEDULER:
                    self._move(path, f"scheduler.{field}")
            elif field in _SCHEDULER_DEFAULTS and key.default is not None:
                self.values[f"scheduler.{field}"] = key.default

    def _activation(self) -> None:
        section = {name: f"activation_checkpointing.{name}" for name in _ACTIVATION}
        self.groups["activation_checkpointing"] = "none"
        if any(self.left.get(path) is True for path in section.values()):
            self.groups["activation_checkpointing"] = "full"
            for path in section.values():
                self._move(path, path)

    def _same(self) -> None:
        for path, to in SAME.items():
            self._move(path, to)

    def dropped_defaults(self) -> Iterator[str]:
        """Leaves still left that only say what is off anyway."""
        for path, value in self.left.items():
            if path.startswith("activation_checkpointing.") and not value:
                yield path


_CONFIG_SCHEDULER = frozenset(
    {
        "warmup_num_steps",
        "warmup_min_lr",
        "warmup_max_lr",
        "warmup_type",
        "total_num_steps",
        "warmup_min_ratio",
        "cos_min_ratio",
        "cycle_min_lr",
        "cycle_max_lr",
        "cycle_first_step_size",
        "cycle_second_step_size",
        "decay_lr_rate",
    }
)
