"""One line a diagnostic code of SLURM."""

from __future__ import annotations

CODES: dict[str, str] = {
    "ZC720": "Memory is asked for twice, or per GPU without GPUs.",
    "ZC721": "An sbatch, srun or environment name that zerocfg decides, or that has a field of its own.",
    "ZC722": "hydra.launcher.nodes or gpus_per_node is not what the run is for.",
    "ZC723": "A SLURM option is out of range or no text for a script.",
    "ZC724": "SLURM's commands are not on this machine.",
    "ZC725": "There is no such partition.",
    "ZC726": "The time limit is over the partition's.",
    "ZC727": "A job needs more than the partition's nodes have.",
    "ZC728": "hardware=auto under SLURM, and the partition does not say what its nodes have.",
    "ZC729": "sbatch refused the job.",
    "ZC730": "The nodes of a job have no address to meet at, or only a loopback one.",
    "ZC731": "No port for the rendezvous is free.",
    "ZC732": "A network interface that NCCL or gloo is to use does not exist on the node.",
    "ZC733": "zerocfg jobs: there is no such folder, or it holds no job of a sweep.",
    "ZC734": "The signal before the time limit would come at the job's start.",
    "ZC735": "SLURM's controller does not answer.",
}
