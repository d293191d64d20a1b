"""Options of hydra/launcher=zerocfg_slurm. Imported at the start of every app: nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from zerocfg.launch.options import OnInfeasible
from zerocfg.schema.slurm import SlurmConfig


@dataclass
class SlurmOptions(SlurmConfig):
    """hydra/launcher=zerocfg_slurm: each job under sbatch, one task a node, torchrun in it."""

    wait: bool = True
    """Wait for the jobs and hand back their results. Off: print the job ids and leave; `zerocfg jobs` shows them later."""
    poll_seconds: float = 2.0
    """Seconds between two looks at the queue while waiting."""
    python: Optional[str] = None  # noqa: UP045 - OmegaConf reads this spelling on every Python
    """Interpreter on the nodes; it must have zerocfg installed. Null: the launcher's own."""
    progress: bool = True
    """On a terminal and for a single job, show a bar of the training steps."""
    dry_run: bool = False
    """Write each job's folder and print the sbatch scripts; submit nothing."""
    on_infeasible: OnInfeasible = OnInfeasible.fail
    """A point of a sweep that does not compile, or that the cluster has no room for: fail submits nothing, skip lists it and leaves
    it out (its objective is NaN; with Optuna it is a failed trial)."""
    retry_failed: bool = False
    """On a rerun of the same hydra.sweep.dir, take over the jobs that finished with the same overrides, and submit the others."""
    preflight: bool = False
    """In each job, before training: zerocfg doctor on its nodes, and some seconds of matrix products and all-reduces on all ranks."""
