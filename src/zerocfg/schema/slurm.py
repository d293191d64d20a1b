from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Dict, List, Optional


class GpuRequest(Enum):
    """Which flag asks for GPUs; sites differ in what they accept."""

    gpus_per_node = "gpus_per_node"
    """--gpus-per-node=a100:4"""
    gres = "gres"
    """--gres=gpu:a100:4"""


@dataclass
class SlurmConfig:
    """What a job asks SLURM for, under `hydra.launcher`. A field left null writes no flag: the cluster's own default holds."""

    partition: Optional[str] = None
    """Partition, or several with commas. Null: the cluster's default one."""
    account: Optional[str] = None
    """Account that is charged."""
    qos: Optional[str] = None
    """Quality of service."""
    constraint: Optional[str] = None
    """Features that the nodes must have, in SLURM's syntax."""
    reservation: Optional[str] = None
    """Reservation to run in."""
    exclusive: bool = False
    """Whole nodes, shared with no other job."""
    timeout_min: Optional[float] = None
    """Time limit, minutes. Null: the partition's default."""
    nodes: Optional[int] = None
    """Nodes of a job. Null: hardware.num_nodes, which it must equal."""
    gpus_per_node: Optional[int] = None
    """GPUs on each node. Null: hardware.gpus_per_node, which it must equal; none for an app without zerocfg's groups."""
    gpu_type: Optional[str] = None
    """GPU type as in the cluster's gres, a100. Null: any."""
    gpu_request: GpuRequest = GpuRequest.gpus_per_node
    """Flag that asks for the GPUs."""
    cpus_per_task: Optional[int] = None
    """CPUs on each node, as SLURM counts them (often hardware threads). Null: the plan's cores x threads a core."""
    mem_gb: Optional[float] = None
    """Main memory on each node, GiB; 0: all of it. At most one of the three mem_ fields."""
    mem_per_cpu_gb: Optional[float] = None
    """Main memory for each CPU, GiB."""
    mem_per_gpu_gb: Optional[float] = None
    """Main memory for each GPU, GiB."""
    job_name: Optional[str] = None
    """Name in squeue. Null: hydra.job.name."""
    array_parallelism: Optional[int] = None
    """Most jobs of one array that run at once. Null: no limit."""
    signal: Optional[str] = None
    """Signal to every process of a job's ranks before its time limit: USR2, TERM. Null: USR2 for a run that saves checkpoints, which
    then saves and is started again; else none."""
    signal_delay_s: int = 90
    """Seconds between `signal` and the time limit, time for a step and a checkpoint; SLURM may be up to 60 s early."""
    requeue: Optional[bool] = None
    """Whether a job may be started again under its id, after a node failure, a preemption or `signal`. Null: a run that saves
    checkpoints may, unless checkpoint.max_requeues is 0; others not. `sbatch.no_requeue: null` leaves it to the cluster."""
    setup: List[str] = field(default_factory=list)
    """Shell lines of the batch script before the ranks start, in the folder of the submission: module load cuda/12.8."""
    environment: Dict[str, Any] = field(default_factory=dict)
    """Exported in the batch script before `setup`. Names that look like secrets are handed over without being written."""
    sbatch: Dict[str, Any] = field(default_factory=dict)
    """Further sbatch options by name, `sbatch.mail_type: END`; true: a bare flag; null: leaves out a flag that zerocfg writes."""
    srun: Dict[str, Any] = field(default_factory=dict)
    """Further srun options by name, in place of zerocfg's own ones: `srun.cpu_bind: cores`; true and null as in `sbatch`."""
