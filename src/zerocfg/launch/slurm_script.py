"""The sbatch script of one array, as text. Everything that runs is in it: it can be submitted again by hand."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from zerocfg.emit import COMPILED, LAUNCH, RUN_DIR
from zerocfg.launch.fitness import preflight_command
from zerocfg.launch.paths import INNER, JOB_TOKEN
from zerocfg.passes.lower.slurm import SlurmShape

SLURM_DIR = "slurm"
"""Below the sweep's folder: scripts, logs of the batch scripts, the list of jobs."""
END_FILE = f"{INNER}/slurm_end"
"""Below a job's folder: "JOBID STATUS" once the batch script has ended."""
NODE_MODULE = "zerocfg.launch.slurm_node"
STEP_MODULE = "zerocfg.launch.slurm_step"


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """How a task starts its ranks."""

    python: str
    home: str
    """Where the user submitted: folder of `setup`, and of the ranks."""
    program: tuple[str, ...] = ()
    """Arguments of python for an app without zerocfg's groups; empty: compiled/launch.sh."""
    takes_arguments: bool = False
    """launch.sh has no program of its own: the batch script's arguments are it."""
    preflight: bool = False
    """The nodes are looked at first, through preflight.sh beside launch.sh."""


def sbatch_script(shape: SlurmShape, folders: Sequence[Path], slurm_dir: Path, start: Start) -> str:
    """folders: of the jobs, absolute; more than one: an array, in this order. slurm_dir: where the batch script's own log goes."""
    several = len(folders) > 1
    lines = [
        "#!/bin/bash",
        f"# Written by zerocfg: {_counted(len(folders), 'job')}, {_counted(shape.nodes, 'node')} a job. `sbatch FILE` runs it again.",
        *(f"#SBATCH --{name}" + (f"={_directive(value)}" if value else "") for name, value in shape.directives),
    ]
    if several:
        limit = f"%{shape.array_parallelism}" if shape.array_parallelism else ""
        lines.append(f"#SBATCH --array=0-{len(folders) - 1}{limit}")
    log = "%A_%a.log" if several else "%j.log"
    # SLURM replaces % and \ in the folder of its own log too, and a directive ends with its line
    plain = not set(str(slurm_dir)) & set("%\\\n\r")
    if "\n" not in str(slurm_dir) and "\r" not in str(slurm_dir):
        lines.append(f"#SBATCH --chdir={_directive(str(slurm_dir))}")
    lines += [f"#SBATCH --output={log if plain else '/dev/null'}", ""]
    if not plain:
        lines.append('exec >>"${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}.log" 2>&1')
    if several:
        lines += ["jobs=(", *(f"  {_quote(str(folder))}" for folder in folders), ")", "job=${jobs[$SLURM_ARRAY_TASK_ID]}"]
    else:
        lines.append(f"job={_quote(str(folders[0]))}")
    lines += [
        "id=${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}",
        'mkdir -p -- "$job/'
        + INNER
        + '" || { echo "zerocfg: $(hostname) cannot write $job: all nodes must share its file system" >&2; exit 1; }',
        f'rm -f -- "$job/{END_FILE}"',
        f'trap \'echo "$id $?" >"$job/{END_FILE}"\' EXIT',
        # a shell that a signal ends would say 0
        "trap 'exit 143' TERM",
        # for the ranks; a shell without a trap would be ended by it
        "trap : USR2",
        f'export {RUN_DIR}="$job" {JOB_TOKEN}="slurm-$SLURM_JOB_ID"',
        *(f"export {name}={_quote(value)}" for name, value in shape.environment),
        f"cd -- {_quote(start.home)} || exit",
    ]
    if shape.setup:
        lines += ["", "# hydra.launcher.setup", *shape.setup]
    lines += ["", *_step(shape, start)]
    return "\n".join(lines) + "\n"


def _step(shape: SlurmShape, start: Start) -> list[str]:
    launch = f'"$job/{COMPILED}/{LAUNCH}"' + (' "$@"' if start.takes_arguments else "")
    if start.program:
        words = " ".join(_quote(word) for word in (start.python, "-u", *start.program))
        command = f"""/bin/sh -c 'cd -- "$1" && shift && exec "$@"' start {_quote(start.home)} {words}"""
    else:
        command = f"{_quote(shape.container_python or start.python)} -m {NODE_MODULE} start {launch}"
    lines = []
    if shape.nodes > 1:
        port = f" --port={shape.rdzv_port}" if shape.rdzv_port else ""
        lines += [
            "# where the nodes meet: the first host's address and a free port on it, which is this one",
            'hosts=$(scontrol show hostnames "$SLURM_JOB_NODELIST") || exit',
            f"meet=$({_quote(start.python)} -m {NODE_MODULE} rendezvous{port} $hosts) || exit",
            'export ZEROCFG_RDZV_HOST="${meet% *}" ZEROCFG_RDZV_PORT="${meet##* }"',
            'export ZEROCFG_RDZV_ID="$SLURM_JOB_ID.${SLURM_RESTART_COUNT:-0}"',
            "",
        ]
    options = [f"--{name}" + (f"={_quote(value)}" if value else "") for name, value in shape.srun]
    here = ["here=$PWD"] if shape.container else []
    step = [f"srun {' '.join([*options, *shape.container])} \\", f"  {command}"]
    if start.preflight and not start.program:
        # runs the same step with preflight.sh, then, where all nodes are fit, this one
        step = [f"{' '.join(map(_quote, preflight_command(start.python, ())))} \\", *(f"  {line}" for line in step)]
    # sees to it that the step ends, and that a job that was stopped and has saved is started again
    step = [f"{_quote(start.python)} -m {STEP_MODULE} \\", *(f"  {line}" for line in step)]
    return [*lines, *here, 'cd -- "$job" || exit', *step]


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _quote(text: str) -> str:
    return shlex.quote(text)


def _directive(value: str) -> str:
    """A value of an #SBATCH line. sbatch does not read these as a shell does: a backslash counts inside single quotes too."""
    if value and all(c.isalnum() or c in "_-+=.,:/@%[]" for c in value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
