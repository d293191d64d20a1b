"""Plan -> leaves of the DeepSpeed JSON. Only what was decided and what DeepSpeed reads at this stage and precision."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from zerocfg.lowered import Leaf
from zerocfg.plan import Plan
from zerocfg.provenance import Reason, rule

_PASS = "lower.deepspeed"
Reasons = Mapping[str, Reason]
"""Plan path (zero.stage) -> why."""

_STAGE_1_2 = ("allgather_bucket_size",)
_STAGE_3 = (
    "stage3_prefetch_bucket_size",
    "stage3_param_persistence_threshold",
    "stage3_max_live_parameters",
    "stage3_max_reuse_distance",
    "sub_group_size",
    "stage3_gather_16bit_weights_on_model_save",
)
_ZEROPP = ("zero_quantized_weights", "zero_quantized_gradients")
_FP16 = ("loss_scale", "initial_scale_power", "loss_scale_window", "hysteresis", "min_loss_scale")


def lower_deepspeed(plan: Plan, reasons: Reasons) -> list[Leaf]:
    """Leaves in the order in which they are written."""
    return [*_batch(plan, reasons), *_parallel(plan, reasons), *_precision(plan, reasons), *_zero(plan, reasons), *_rest(plan, reasons)]


def _field(section: str, name: str, plan: Plan, reasons: Reasons, to: str) -> Leaf:
    value: Any = getattr(getattr(plan, section), name)
    return Leaf(to, list(value) if isinstance(value, tuple) else value, reasons.get(f"{section}.{name}", rule(_PASS, "")))


def _batch(plan: Plan, reasons: Reasons) -> Iterator[Leaf]:
    if plan.topology.tensor_parallel_degree == 1:
        # With AutoTP DeepSpeed checks the triple against two different worlds (config.py:602 and zero.Init): leave the product out.
        yield _field("batch", "global_batch_size", plan, reasons, "train_batch_size")
    yield _field("batch", "micro_batch_size", plan, reasons, "train_micro_batch_size_per_gpu")
    yield _field("batch", "gradient_accumulation_steps", plan, reasons, "gradient_accumulation_steps")
    yield _field("optimizer", "gradient_clipping", plan, reasons, "gradient_clipping")


def _parallel(plan: Plan, reasons: Reasons) -> Iterator[Leaf]:
    topology = plan.topology
    if topology.tensor_parallel_degree > 1:
        yield _field("topology", "tensor_parallel_degree", plan, reasons, "tensor_parallel.autotp_size")
    if topology.sequence_parallel_degree > 1:
        yield _field("topology", "sequence_parallel_degree", plan, reasons, "sequence_parallel_size")
        yield Leaf("data_parallel_size", topology.data_parallel_size, reasons["batch.data_parallel_size"])


def _precision(plan: Plan, reasons: Reasons) -> Iterator[Leaf]:
    precision = plan.precision
    if precision.dtype != "fp32":
        yield Leaf(f"{precision.dtype}.enabled", True, reasons["precision.dtype"])
    if precision.dtype == "fp16":
        for name in _FP16:
            yield _field("precision", name, plan, reasons, f"fp16.{name}")
    if precision.dtype == "bf16" and plan.zero.stage in (1, 2):
        why = rule(_PASS, "on in every release: DeepSpeed's default was false before 0.19.3", "precision.dtype")
        yield Leaf("bf16.check_grad_overflow", True, why)
    if precision.dtype == "bf16" and precision.master_dtype == "bf16":
        yield _field_as_flag("bf16.bf16_master_weights_and_grads", reasons)
        yield _field_as_flag("bf16.bf16_optimizer_states", reasons)
    if precision.grad_accum_dtype != precision.dtype:
        yield _field("precision", "grad_accum_dtype", plan, reasons, "data_types.grad_accum_dtype")
    if plan.topology.sequence_parallel_degree > 1:
        # read instead of communication_data_type (engine.py:2182)
        yield _field("precision", "communication_data_type", plan, reasons, "seq_parallel_communication_data_type")
    elif precision.communication_data_type != precision.dtype:
        yield _field("precision", "communication_data_type", plan, reasons, "communication_data_type")


def _field_as_flag(path: str, reasons: Reasons) -> Leaf:
    return Leaf(path, True, reasons["precision.master_dtype"])


def _zero(plan: Plan, reasons: Reasons) -> Iterator[Leaf]:
    zero = plan.zero
    names: tuple[str, ...] = ("stage",)
    if zero.stage >= 1:
        names += ("overlap_comm", "contiguous_gradients", "reduce_scatter", "reduce_bucket_size")
    if zero.stage in (1, 2):
        names += _STAGE_1_2 + (("round_robin_gradients",) if zero.round_robin_gradients else ())
    if zero.stage == 3:
        names += _STAGE_3
        names += tuple(name for name in _ZEROPP if getattr(zero, name))
        names += () if zero.memory_efficient_linear else ("memory_efficient_linear",)
        if zero.zero_hpz_partition_size != 1:
            names += ("zero_hpz_partition_size",)
    for name in names:
        yield _field("zero", name, plan, reasons, f"zero_optimization.{name}")
    if zero.stage == 3 and zero.leaf_module_classes:
        yield _field("zero", "leaf_module_classes", plan, reasons, "zero_optimization.leaf_module.classes")
    yield from _offload(plan, reasons)


def _offload(plan: Plan, reasons: Reasons) -> Iterator[Leaf]:
    offload = plan.offload
    for kind in ("optimizer", "param"):
        device = getattr(offload, kind)
        if device == "none":
            continue
        section = f"zero_optimization.offload_{kind}"
        yield _field("offload", kind, plan, reasons, f"{section}.device")
        yield _field("offload", "pin_memory", plan, reasons, f"{section}.pin_memory")
        if kind == "optimizer" and offload.ratio != 1.0:
            yield _field("offload", "ratio", plan, reasons, f"{section}.ratio")
        if device == "nvme":
            yield _field("offload", "nvme_path", plan, reasons, f"{section}.nvme_path")
            yield _field("offload", f"{kind}_buffer_count", plan, reasons, f"{section}.buffer_count")
            if kind == "param":
                yield _field("offload", "param_buffer_size", plan, reasons, f"{section}.buffer_size")
                yield _field("offload", "param_max_in_cpu", plan, reasons, f"{section}.max_in_cpu")
            else:
                yield _field("offload", "pipeline_read", plan, reasons, f"{section}.pipeline_read")
                yield _field("offload", "pipeline_write", plan, reasons, f"{section}.pipeline_write")


def _rest(plan: Plan, reasons: Reasons) -> Iterator[Leaf]:
    optimizer, scheduler = plan.optimizer, plan.scheduler
    if optimizer.type:
        yield _field("optimizer", "type", plan, reasons, "optimizer.type")
    for name, value in optimizer.params.items():
        yield Leaf(f"optimizer.params.{name}", value, reasons[f"optimizer.params.{name}"])
    if optimizer.type == "Lamb" and plan.zero.stage >= 1:
        why = rule(_PASS, "Lamb is not on ZeRO's tested list (zero/utils.py:45); DeepSpeed refuses it without this", "optimizer.type")
        yield Leaf("zero_allow_untested_optimizer", True, why)
    if scheduler.type:
        yield _field("scheduler", "type", plan, reasons, "scheduler.type")
        for name, value in scheduler.params.items():
            yield Leaf(f"scheduler.params.{name}", value, reasons[f"scheduler.params.{name}"])
    checkpointing = plan.activation_checkpointing
    if checkpointing.enabled:
        for name in (
            "partition_activations",
            "cpu_checkpointing",
            "contiguous_memory_optimization",
            "synchronize_checkpoint_boundary",
            "profile",
        ):
            yield _field("activation_checkpointing", name, plan, reasons, f"activation_checkpointing.{name}")
        if checkpointing.number_checkpoints:
            yield _field("activation_checkpointing", "number_checkpoints", plan, reasons, "activation_checkpointing.number_checkpoints")
    if plan.train.profile == "comms":
        yield Leaf("comms_logger.enabled", True, reasons["train.profile"])


DECIDED_BY_GROUPS: dict[str, str] = {
    "train_batch_size": "batch.global_batch_size",
    "train_micro_batch_size_per_gpu": "batch.micro_batch_size",
    "gradient_accumulation_steps": "batch.gradient_accumulation_steps",
    "gradient_clipping": "optimizer.gradient_clipping",
    "zero_optimization.stage": "parallelism.stage",
    "zero_optimization.offload_optimizer.device": "offload.optimizer",
    "zero_optimization.offload_param.device": "offload.param",
    "fp16.enabled": "precision.dtype",
    "bf16.enabled": "precision.dtype",
    "bf16.bf16_master_weights_and_grads": "precision.master_dtype",
    "bf16.bf16_optimizer_states": "precision.master_dtype",
    "data_types.grad_accum_dtype": "precision.grad_accum_dtype",
    "optimizer.type": "optimizer.type",
    "optimizer.params.lr": "optimizer.lr",
    "scheduler.type": "scheduler.type",
    "tensor_parallel.autotp_size": "parallelism.tensor_parallel_degree",
    "sequence_parallel_size": "parallelism.sequence_parallel_degree",
    "data_parallel_size": "hardware.num_nodes",
}
"""What the rest of the plan follows from: these may not be laid over, they are set in their group."""
