"""A script without Hydra under SLURM: the same checks and the same submission as hydra/launcher=zerocfg_slurm."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from zerocfg.diagnostics import Diagnostic
from zerocfg.launch.plain import exit_status, program
from zerocfg.launch.prepare import PreparedJob
from zerocfg.launch.slurm_cluster import Cluster, Unread, missing_commands
from zerocfg.launch.slurm_launch import Submission, SubmittedReturn
from zerocfg.launch.slurm_options import SlurmOptions
from zerocfg.launch.slurm_place import Placement
from zerocfg.launch.slurm_preflight import check_commands
from zerocfg.launch.slurm_state import check_active


def check_submission(job: PreparedJob, options: SlurmOptions) -> Iterator[Diagnostic]:
    """ZC724 no SLURM here, ZC706 a job of an earlier submission still uses the folder."""
    if not options.dry_run:
        yield from check_commands(missing_commands())
    yield from check_active([job.folder], job.folder)


def run_slurm(job: PreparedJob, options: SlurmOptions, words: Sequence[str], *, placement: Placement, cluster: Cluster | Unread) -> int:
    """Submit it, and wait unless hydra.launcher.wait is off. Returns the exit status; 0 for a job that nobody waits for.

    The script, SLURM's log and jobs.json are in slurm/ below the job's folder. Raises LaunchRefused when sbatch refuses it.
    """
    submission = Submission(options, job.folder, cluster, lambda _: b"", program(words))
    ret = submission.run([job], placement.shapes)[job.number]
    return 0 if isinstance(ret, SubmittedReturn) else exit_status(ret)
