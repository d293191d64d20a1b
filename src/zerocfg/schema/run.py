from __future__ import annotations

from dataclasses import dataclass, field
from typing import List, Optional

from zerocfg.schema.types import Count, NumaBinding, Profile


@dataclass
class TrainConfig:
    """Section `train`: the loop of the training script."""

    steps: Count = 100
    """Optimizer steps."""
    seed: Count = 1234
    """Seed of weights, data order and dropout."""
    log_every: Count = 10
    """Optimizer steps between two lines in metrics.jsonl and on the terminal; the first and the last are always logged."""
    num_workers: Count = 0
    """DataLoader worker processes a rank."""
    pin_memory: Optional[bool] = None
    """Page-locked batches. Null: on with cuda."""
    data: Optional[str] = None
    """Folder of text files to train on. Null: the Python standard library's sources."""
    profile: Profile = Profile.steps
    """Where the time of a step goes. none: not told. steps: forward, backward, optimizer and waiting for data, by CUDA events that nothing
    waits for. comms: the time in collectives too, by DeepSpeed's comms logger, which makes each collective blocking: no overlap, slower
    steps. torch: torch.profiler over three early steps of each start, which take longer; traces go to profile/, the share of collectives
    and how much of it no kernel hides to summary.json."""
    trackers: List[str] = field(default_factory=lambda: ["tensorboard"])
    """Where scalars go beside metrics.jsonl: tensorboard, wandb (pip install wandb; its own variables, such as WANDB_PROJECT and
    WANDB_MODE, hold)."""


@dataclass
class TorchrunConfig:
    """Section `torchrun`: how ranks are started. Names are torchrun's."""

    max_restarts: Count = 0
    """Restarts of all workers of a job after a failure."""
    monitor_interval: Optional[float] = None
    """Seconds between two looks at the workers. Null: torchrun's 0.1."""
    rdzv_port: Optional[Count] = None
    """Port on the first host, several nodes. Null: 29500, or from the job id under SLURM."""
    rdzv_timeout: Count = 900
    """Seconds that nodes wait for each other at the start."""
    signals_to_handle: List[str] = field(default_factory=lambda: ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"])
    """Signals that torchrun passes on to the workers."""
    shutdown_timeout: Optional[Count] = None
    """Seconds between the signal to stop and SIGKILL. Null: torchrun's 30; 600 where a checkpoint is saved in between."""
    numa_binding: Optional[NumaBinding] = None
    """Null: node where a machine has several NUMA nodes and GPUs, else none."""


@dataclass
class CommunicationConfig:
    """Section `communication`: process groups and NCCL."""

    timeout_minutes: float = 10.0
    """Longest wait of a collective before the run is ended, as a part of a minute too. Scripts that call deepspeed.init_distributed
    themselves get whole minutes (DEEPSPEED_TIMEOUT)."""
    nccl_debug: Optional[str] = None
    """NCCL_DEBUG: WARN, INFO. Null: not set."""
