"""Names inside a job's folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from zerocfg.runtime.stopping import STOP_WORD

INNER = ".zerocfg"
"""What the launcher keeps for itself: the payload, results, submitit's files."""
PAYLOAD = f"{INNER}/payload.pkl"
PREFLIGHT = f"{INNER}/preflight"
JOB_TOKEN = "ZEROCFG_JOB_TOKEN"
"""Environment of every process of a launched job: an id of its own. Absent when launch.sh is run by hand."""


@dataclass(frozen=True, slots=True)
class JobPaths:
    """root: the job's folder, absolute."""

    root: Path

    @property
    def inner(self) -> Path:
        return self.root / INNER

    @property
    def payload(self) -> Path:
        return self.root / PAYLOAD

    @property
    def preflight(self) -> Path:
        """What the ranks of a preflight found, a file each."""
        return self.root / PREFLIGHT

    @property
    def preflight_report(self) -> Path:
        """Why a preflight let nothing start; absent where it did not."""
        return self.preflight / "report.txt"

    def refusal(self, host: str) -> Path:
        """Why a node let nothing start; absent where it did. In `results`, which each start clears."""
        return self.results / f"refused_{host}.txt"

    @property
    def refusals(self) -> list[Path]:
        return sorted(self.results.glob("refused_*.txt"))

    @property
    def results(self) -> Path:
        return self.inner / "results"

    def result(self, rank: int) -> Path:
        return self.results / f"result_{rank}.pkl"

    @property
    def submitit(self) -> Path:
        return self.inner / "submitit"

    @property
    def stop_word(self) -> Path:
        """Who wants the job to stop, for its ranks; absent until somebody does."""
        return self.root / STOP_WORD

    @property
    def lock(self) -> Path:
        """Of the launcher."""
        return self.inner / "lock"

    @property
    def job_lock(self) -> Path:
        """Of the job's own process: it may outlive a launcher that was killed, to save."""
        return self.inner / "job.lock"

    @property
    def starter_log(self) -> Path:
        """What torchrun itself wrote, and ranks before they had a log of their own."""
        return self.inner / "torchrun.log"

    def rank_log(self, rank: int) -> Path:
        return self.root / f"rank_{rank}.log"

    @property
    def flight_recorder(self) -> Path:
        """Start of the names of NCCL's dumps, one a rank: TORCH_FR_DUMP_TEMP_FILE."""
        return self.root / "nccl_trace_rank_"

    @property
    def metrics(self) -> Path:
        return self.root / "metrics.jsonl"

    @property
    def summary(self) -> Path:
        return self.root / "summary.json"
