from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import List, Optional


class ContainerKind(Enum):
    none = "none"
    docker = "docker"
    apptainer = "apptainer"
    pyxis = "pyxis"
    """SLURM's plugin for enroot: srun starts the container."""


@dataclass
class ContainerConfig:
    """Group `container`: the image that torchrun and the ranks run in.

    The folder of the start, the job's folder and the absolute ones of train.data, offload.nvme_path and checkpoint.directory are there
    under their own names.
    """

    name: str = ""
    """The option's name, for reports."""
    kind: ContainerKind = ContainerKind.none
    """What starts it."""
    image: Optional[str] = None
    """docker: NAME:TAG; apptainer: a .sif file or docker://NAME:TAG; pyxis: NAME:TAG or a .sqsh file. The image has zerocfg installed."""
    mounts: List[str] = field(default_factory=list)
    """Further folders, SOURCE[:TARGET][:ro], absolute; without a target under their own names."""
    shm_size: Optional[str] = None
    """docker: size of /dev/shm, 16g. Null: the machine's own one (--ipc=host)."""
    python: str = "python3"
    """Interpreter in the image."""
    environment: List[str] = field(default_factory=lambda: ["HF_TOKEN", "WANDB_API_KEY"])
    """docker: names of your environment that go in beside those that the run sets; their values are written nowhere."""
    arguments: List[str] = field(default_factory=list)
    """Further arguments of `docker run`, `apptainer exec` or srun, [--group-add=video]."""
