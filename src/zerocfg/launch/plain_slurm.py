"""A script without Hydra under SLURM: the same checks and the same submission as hydra/launcher=zerocfg_slurm."""

from __future__ import annotations

from collections.abc import Sequence

from zerocfg.launch.plain import exit_status, program
from zerocfg.launch.prepare import PreparedJob
from zerocfg.launch.slurm_cluster import Cluster, Unread
from zerocfg.launch.slurm_launch import Submission, SubmittedReturn
from zerocfg.launch.slurm_options import SlurmOptions
from zerocfg.launch.slurm_place import Placement


def run_slurm(job: PreparedJob, options: SlurmOptions, words: Sequence[str], *, placement: Placement, cluster: Cluster | Unread) -> int:
    """Submit it, and wait unless hydra.launcher.wait is off. Returns the exit status; 0 for a job that nobody waits for.

    The script, SLURM's log and jobs.json are in slurm/ below the job's folder. Raises LaunchRefused when sbatch refuses it.
    """
    submission = Submission(options, job.folder, cluster, lambda _: b"", program(words))
    ret = submission.run([job], placement.shapes)[job.number]
    return 0 if isinstance(ret, SubmittedReturn) else exit_status(ret)
