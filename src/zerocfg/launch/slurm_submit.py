"""One call of sbatch: a script of ours through submitit's SLURM executor, in an environment without traces of an outer job."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import Any

from zerocfg.diagnostics import ConfigProblems, Diagnostic
from zerocfg.launch.paths import JOB_TOKEN
from zerocfg.launch.slurm_preflight import no_answer
from zerocfg.passes.lower.slurm import PATH, SlurmShape

# Where the cluster is and how to talk to it; everything else of SLURM's is an outer job's, or this script's to say.
_KEPT = frozenset({"SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT", "SLURM_CLUSTERS"})
_OUTER_JOB = re.compile(
    r"(SLURM|SLURMD|SRUN|SALLOC|SUBMITIT|PET|TORCHELASTIC)_|"
    r"((LOCAL_|GROUP_|ROLE_)?(RANK|WORLD_SIZE)|ROLE_NAME|MASTER_ADDR|MASTER_PORT|CUDA_VISIBLE_DEVICES|ZEROCFG_RUN_DIR|ZEROCFG_RDZV_\w+)$"
)

_SILENT = re.compile(r"contact slurm controller|Socket timed out|configuration source|connect failure", re.IGNORECASE)
"""In sbatch's words: nobody has looked at the job."""
_SAID_BY_EVERY_SCRIPT = {"SBATCH_ARRAY_INX", "SBATCH_OUTPUT", "SBATCH_ERROR", "SBATCH_REQUEUE", "SBATCH_NO_REQUEUE", "SBATCH_WAIT"}


def submission_environment(environ: Mapping[str, str], shape: SlurmShape) -> dict[str, str]:
    """What sbatch is called with, and by SLURM's default what the job gets.

    Dropped: SLURM's, torchrun's and submitit's variables of an outer job; inside a job all SBATCH_* too, outside of one those
    that would win over a directive of the script. The launcher's GPUs mean nothing on a node.
    """
    nested = "SLURM_JOB_ID" in environ or "SLURM_JOBID" in environ
    said = {f"SBATCH_{name.replace('-', '_').upper()}" for name, _ in shape.directives} | _SAID_BY_EVERY_SCRIPT
    if any(name.startswith("mem") for name, _ in shape.directives):
        said |= {"SBATCH_MEM_PER_NODE", "SBATCH_MEM_PER_CPU", "SBATCH_MEM_PER_GPU"}
    if any(name == "time" for name, _ in shape.directives):
        said.add("SBATCH_TIMELIMIT")
    kept = {
        name: value
        for name, value in environ.items()
        if name in _KEPT or not (_OUTER_JOB.match(name) or name == JOB_TOKEN or (name.startswith("SBATCH_") and (nested or name in said)))
    }
    return kept | dict(shape.secrets)


def submit(text: str, folder: Path, shape: SlurmShape) -> str:
    """Submit a script and return SLURM's job id. The script is kept as folder/JOBID_submission.sh.

    folder: the sweep's folder for SLURM, which exists. Raises ConfigProblems (ZC729) with sbatch's own words.
    """
    from submitit.core.utils import FailedJobError, FailedSubmissionError

    executor = _executor(folder, text)
    try:
        # submitit prints what sbatch says to stderr as well as raising it
        with _environment(submission_environment(os.environ, shape)), redirect_stderr(io.StringIO()):
            job_id = str(executor._submit_command("").job_id)
    except (FailedJobError, FailedSubmissionError, OSError) as problem:
        raise ConfigProblems([_refused(str(problem), text)]) from None
    finally:
        for link in folder.glob(".submission_file_*.sh"):
            link.unlink()
    return job_id


def _executor(folder: Path, text: str) -> Any:
    import submitit

    class ScriptExecutor(submitit.SlurmExecutor):  # type: ignore[misc]
        """submitit's submission with a script that needs no pickle under the job's id: it runs as it stands."""

        def _make_submission_file_text(self, command: str, uid: str) -> str:
            return text

        def _make_submission_command(self, submission_file_path: Path) -> list[str]:
            # not by a umask, which sbatch hands on to the job
            submission_file_path.chmod(0o700)
            # again, because a directive cannot hold every folder's name
            return ["sbatch", f"--chdir={folder}", str(submission_file_path)]

    return ScriptExecutor(folder)


def _refused(words: str, text: str) -> Diagnostic:
    lines = [line.removeprefix("sbatch: ").strip() for line in words.splitlines() if line.strip() and not line.startswith("Try ")]
    said = [line for line in lines if line.startswith(("error:", "fatal:"))] or lines or ["no reason given"]
    if any(_SILENT.search(line) for line in said):
        return no_answer("\n".join(said))
    directives = tuple(
        line for line in text.splitlines() if line.startswith("#SBATCH") and "--chdir" not in line and "--output" not in line
    )
    return Diagnostic(
        code="ZC729",
        path=PATH,
        message=f"sbatch refused: {said[-1].removeprefix('error: ')}",
        detail=(*said[:-1], "asked for:", *(f"  {line.removeprefix('#SBATCH ')}" for line in directives)),
        hint="`sinfo` lists partitions, `scontrol show partition` their limits; `hydra.launcher.dry_run=true` prints the script",
    )


@contextmanager
def _environment(new: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(new)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
