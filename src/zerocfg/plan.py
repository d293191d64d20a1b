"""What will be: every value decided. No None for unknown, no "auto", no -1; 0 and "" mean "none of it" where a docstring says so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zerocfg.facts import HardwareFacts, ModelFacts
from zerocfg.traced import ActivationTrace


@dataclass(frozen=True, kw_only=True, slots=True)
class TopologyPlan:
    num_nodes: int
    nproc_per_node: int
    tensor_parallel_degree: int
    sequence_parallel_degree: int
    backend: str
    """nccl or gloo."""
    cpus_per_rank: int

    @property
    def world_size(self) -> int:
        return self.num_nodes * self.nproc_per_node

    @property
    def data_parallel_size(self) -> int:
        """Ranks that see different samples: world / (tensor x sequence parallel)."""
        return max(1, self.world_size // (self.tensor_parallel_degree * self.sequence_parallel_degree))

    @property
    def param_shards(self) -> int:
        """Ranks that stage 3 cuts a parameter over: all but the tensor-parallel ones, sequence-parallel ranks included."""
        return max(1, self.world_size // self.tensor_parallel_degree)


@dataclass(frozen=True, kw_only=True, slots=True)
class PrecisionPlan:
    dtype: str
    """fp32, fp16 or bf16."""
    tf32: bool
    master_dtype: str
    grad_accum_dtype: str
    communication_data_type: str
    loss_scale: float
    initial_scale_power: int
    loss_scale_window: int
    hysteresis: int
    min_loss_scale: int


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchPlan:
    """global = micro x accumulation x data-parallel ranks, always."""

    global_batch_size: int
    micro_batch_size: int
    gradient_accumulation_steps: int
    data_parallel_size: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ZeroPlan:
    """Sizes in elements. Fields of a stage that is not in use are 0, False or empty, and are not emitted."""

    stage: int
    overlap_comm: bool
    contiguous_gradients: bool
    reduce_scatter: bool
    reduce_bucket_size: int
    allgather_bucket_size: int
    round_robin_gradients: bool
    stage3_prefetch_bucket_size: int
    stage3_param_persistence_threshold: int
    stage3_max_live_parameters: int
    stage3_max_reuse_distance: int
    stage3_gather_16bit_weights_on_model_save: bool
    sub_group_size: int
    zero_hpz_partition_size: int
    """1 is off."""
    zero_quantized_weights: bool
    zero_quantized_gradients: bool
    memory_efficient_linear: bool
    leaf_module_classes: tuple[str, ...]
    find_leaf_modules: bool
    """run.initialize marks the model's repeated block as leaf module; never together with leaf_module_classes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OffloadPlan:
    optimizer: str
    """none, cpu or nvme."""
    param: str
    nvme_path: str
    """Empty without nvme."""
    pin_memory: bool
    ratio: float
    param_buffer_count: int
    param_buffer_size: int
    param_max_in_cpu: int
    optimizer_buffer_count: int
    pipeline_read: bool
    pipeline_write: bool

    @property
    def least_stage(self) -> int:
        """The lowest ZeRO stage that offloads so."""
        if self.param != "none" or self.optimizer == "nvme":
            return 3
        return 0 if self.optimizer == "none" else 1


@dataclass(frozen=True, kw_only=True, slots=True)
class ActivationCheckpointingPlan:
    enabled: bool
    partition_activations: bool
    cpu_checkpointing: bool
    contiguous_memory_optimization: bool
    number_checkpoints: int
    """0: not needed."""
    synchronize_checkpoint_boundary: bool
    profile: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class OptimizerPlan:
    type: str
    """Empty: the training script brings its own."""
    params: Mapping[str, object]
    """As emitted under optimizer.params."""
    gradient_clipping: float

    @property
    def is_cpu_adam_offloaded(self) -> bool:
        """Whether an offloaded step runs DeepSpeed's CPU Adam; the script's own optimizer has the benefit of the doubt."""
        return self.type == "" or (self.type in ("Adam", "AdamW") and "torch_adam" not in self.params)

    @property
    def described(self) -> str:
        return f"torch.optim's {self.type}" if "torch_adam" in self.params else self.type or "the script's own"


@dataclass(frozen=True, kw_only=True, slots=True)
class SchedulerPlan:
    type: str
    """Empty: constant rate."""
    params: Mapping[str, object]


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointPlan:
    enabled: bool
    """Save: by count, by time, when asked to stop, after the last step."""
    every_steps: int
    """0: not by count."""
    every_minutes: float
    """0: not by time."""
    keep_last: int
    """0: all."""
    async_save: bool
    directory: str
    """Absolute, or relative to the job's folder."""
    resume: str
    """auto, never, or a path."""
    on_error: str
    """stop or continue."""
    consolidate_on_end: bool
    max_requeues: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Mount:
    """A folder of the machine in a container. Absolute paths."""

    source: str
    target: str
    read_only: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ContainerPlan:
    """Without a container kind is none and nothing else is set."""

    kind: str
    """none, docker, apptainer or pyxis."""
    image: str
    python: str
    """Interpreter in the image."""
    mounts: tuple[Mount, ...]
    """Beside the folder of the start and the job's folder."""
    shm_size: str
    """Empty: the machine's own /dev/shm."""
    gpus: bool
    host_network: bool
    rdma: bool
    """The network cards' devices are in the container."""
    environment: tuple[str, ...]
    """Names of the user's environment."""
    arguments: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TorchrunPlan:
    max_restarts: int
    monitor_interval: float
    """0: torchrun's own."""
    rdzv_port: int
    """0 on one node: torchrun takes a free one."""
    rdzv_timeout: int
    signals_to_handle: tuple[str, ...]
    shutdown_timeout: int
    numa_binding: str
    """none leaves the option out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CommunicationPlan:
    environment: Mapping[str, str]
    """What the run sets, by name; only what was decided. $ZEROCFG_RUN_DIR at a value's start is the job's folder."""
    timeout_seconds: float
    """Longest wait of a collective."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainPlan:
    steps: int
    seed: int
    log_every: int
    num_workers: int
    pin_memory: bool
    data: str
    """Empty: the Python standard library's sources."""
    profile: str
    """none, steps, comms or torch."""
    trackers: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    hardware: HardwareFacts
    detected: bool
    """The hardware was read off this machine."""
    model: ModelFacts | None
    """None: the user's model is not described, and nothing may be derived from it."""
    profile: ActivationTrace | None
    """The user's own model as `zerocfg profile` found it, whole samples; None: memory and speed follow from the dims."""
    topology: TopologyPlan
    precision: PrecisionPlan
    batch: BatchPlan
    zero: ZeroPlan
    offload: OffloadPlan
    activation_checkpointing: ActivationCheckpointingPlan
    optimizer: OptimizerPlan
    scheduler: SchedulerPlan
    checkpoint: CheckpointPlan
    container: ContainerPlan
    communication: CommunicationPlan
    torchrun: TorchrunPlan
    train: TrainPlan

    @property
    def is_described(self) -> bool:
        """Whether memory and speed can be predicted."""
        return self.model is not None or self.profile is not None

    @property
    def model_name(self) -> str:
        return self.model.name if self.model is not None and self.model.name else "the model"
