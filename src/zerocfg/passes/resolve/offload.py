"""What lives outside the GPU, and the buffers that go with it."""

from __future__ import annotations

from zerocfg.facts import ModelFacts
from zerocfg.plan import ActivationCheckpointingPlan, OffloadPlan, TopologyPlan
from zerocfg.provenance import Reason, asked, rule
from zerocfg.resolved import Resolved
from zerocfg.schema.activation_checkpointing import ActivationCheckpointingConfig
from zerocfg.schema.load import field_names
from zerocfg.schema.offload import OffloadConfig
from zerocfg.schema.types import OffloadDevice

_PASS = "resolve.offload"

# DeepSpeed 0.19.8's own buffers (runtime/zero/offload_config.py)
_PARAM_BUFFERS, _PARAM_BUFFER_SIZE, _MAX_IN_CPU, _OPTIMIZER_BUFFERS = 5, 100_000_000, 1_000_000_000, 4
_DEFAULT = "DeepSpeed's default"


def resolve_offload(config: OffloadConfig, model: ModelFacts | None, topology: TopologyPlan) -> Resolved[OffloadPlan]:
    """Sizes of swap buffers, elements, from the largest parameter's shard; DeepSpeed's defaults without a model."""
    reasons: dict[str, Reason] = {name: asked(f"offload.{name}") for name in field_names(OffloadConfig)}

    def count(name: str, default: int, why: str) -> int:
        given = getattr(config, name)
        if given is None:
            reasons[name] = rule(_PASS, why)
            return default
        return int(given)

    def pipeline(name: str) -> bool:
        given = getattr(config, name)
        if given is not None:
            return bool(given)
        swaps = config.optimizer is OffloadDevice.nvme
        reasons[name] = rule(_PASS, "the disk works while the CPU does" if swaps else "no optimizer states on NVMe", "offload.optimizer")
        return swaps

    in_cpu, in_cpu_why = _MAX_IN_CPU, _DEFAULT
    if model is not None and model.num_parameters < in_cpu:
        in_cpu, in_cpu_why = model.num_parameters, f"{_DEFAULT}, capped at the model's {model.num_parameters} parameters"
    plan = OffloadPlan(
        optimizer=config.optimizer.value if config.optimizer is not None else "none",
        param=config.param.value if config.param is not None else "none",
        nvme_path=config.nvme_path or "",
        pin_memory=config.pin_memory,
        ratio=config.ratio,
        param_buffer_count=count("param_buffer_count", _PARAM_BUFFERS, _DEFAULT),
        param_buffer_size=count("param_buffer_size", *_param_buffer(model, topology)),
        param_max_in_cpu=count("param_max_in_cpu", in_cpu, in_cpu_why),
        optimizer_buffer_count=count("optimizer_buffer_count", _OPTIMIZER_BUFFERS, _DEFAULT),
        pipeline_read=pipeline("pipeline_read"),
        pipeline_write=pipeline("pipeline_write"),
    )
    return Resolved(plan, reasons)


def _param_buffer(model: ModelFacts | None, topology: TopologyPlan) -> tuple[int, str]:
    """A buffer holds one parameter's shard (partitioned_param_swapper.py:357), so the largest shard must fit."""
    if model is None:
        return _PARAM_BUFFER_SIZE, _DEFAULT
    largest = model.largest_shard(topology.param_shards)
    if largest > _PARAM_BUFFER_SIZE:
        return largest, f"the largest parameter's shard must fit one buffer: {model.largest_parameter} / {topology.param_shards}"
    if model.num_parameters < _PARAM_BUFFER_SIZE:
        return model.num_parameters, f"{_DEFAULT}, capped at the model's {model.num_parameters} parameters"
    return _PARAM_BUFFER_SIZE, _DEFAULT


def resolve_activation_checkpointing(
    config: ActivationCheckpointingConfig, model: ModelFacts | None
) -> Resolved[ActivationCheckpointingPlan]:
    """number_checkpoints is the number of blocks where DeepSpeed needs it: for contiguous_memory_optimization."""
    reasons: dict[str, Reason] = {name: asked(f"activation_checkpointing.{name}") for name in field_names(ActivationCheckpointingConfig)}
    number = int(config.number_checkpoints or 0)
    if config.number_checkpoints is None and config.contiguous_memory_optimization and model is not None:
        number = model.num_hidden_layers
        reasons["number_checkpoints"] = rule(_PASS, "one a block: num_hidden_layers", "model.num_hidden_layers")
    plan = ActivationCheckpointingPlan(
        enabled=bool(config.enabled),
        partition_activations=config.partition_activations,
        cpu_checkpointing=config.cpu_checkpointing,
        contiguous_memory_optimization=config.contiguous_memory_optimization,
        number_checkpoints=number,
        synchronize_checkpoint_boundary=config.synchronize_checkpoint_boundary,
        profile=config.profile,
    )
    return Resolved(plan, reasons)
