"""One line a diagnostic code of the launcher."""

from __future__ import annotations

CODES: dict[str, str] = {
    "ZC701": "The run is for GPUs that this machine does not have.",
    "ZC702": "Several nodes with the local launcher.",
    "ZC703": "The GPUs here are not the ones that the config names.",
    "ZC704": "The script was started by torchrun, but it starts ranks itself.",
    "ZC705": "Two jobs of one sweep have the same folder.",
    "ZC706": "Another run is using the job's folder.",
    "ZC707": "The task function, or what it refers to, cannot be sent to another process.",
    "ZC708": "A folder's name holds %j, %t, %A or %a, which submitit replaces.",
    "ZC709": "The return value cannot be sent back to the launcher.",
    "ZC710": "A job's config cannot be composed.",
    "ZC711": "A package that the run needs is not installed.",
    "ZC712": "offload.nvme_path cannot hold the job's folder for swap files.",
    "ZC713": "offload.nvme_path has less space than the run swaps there.",
    "ZC714": "checkpoint.max_requeues is for SLURM: the local launcher starts no stopped job again.",
    "ZC715": "An option of hydra.launcher does not exist, or has a value that it does not take.",
    "ZC757": "A file that zerocfg keeps in the folder of a run or a sweep is damaged or gone.",
    "ZC716": "hydra.run.dir has no effect: the app's hydra.sweep.dir is another folder.",
    "ZC744": "container=pyxis with the local launcher.",
    "ZC745": "The program that starts the container is not on this machine.",
}
