"""CompiledRun <-> a folder of files. What is written here is what is run: the launcher starts `launch.sh`, the ranks read the rest."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, get_type_hints

from zerocfg.artifact import CompiledRun, nvme_sections, placed
from zerocfg.diagnostics import ConfigProblems, Diagnostic
from zerocfg.hidden import is_secret as is_secret
from zerocfg.misfit import misfit
from zerocfg.plan import Plan

COMPILED = "compiled"
"""Folder below the job's folder."""
RUN_DIR = "ZEROCFG_RUN_DIR"
"""Environment of the ranks: the job's folder, absolute."""
RDZV_HOST = "ZEROCFG_RDZV_HOST"
RDZV_ID = "ZEROCFG_RDZV_ID"
RDZV_PORT = "ZEROCFG_RDZV_PORT"
"""Port on the first machine in place of the compiled one."""
RDZV_CONF = "ZEROCFG_RDZV_CONF"
"""Further entries of torchrun's --rdzv-conf: is_host=1."""
LAUNCH = "launch.sh"
TORCHRUN = "torch.distributed.run"
NVME_STARTER = "zerocfg.launch.nvme"
"""Torchrun, and around it the node's folder for swap files."""
_FILES = ("ds_config", "torchrun", "environment", "resources", "plan", "provenance")


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredRun:
    """What `write_compiled` wrote, as plain data."""

    deepspeed: dict[str, Any]
    torchrun: tuple[str, ...]
    environment: dict[str, str]
    """Without the names that look like secrets."""
    resources: dict[str, Any]
    plan: dict[str, Any]


def write_compiled(
    run: CompiledRun,
    directory: Path,
    *,
    program: Sequence[str] | None = None,
    python: str = sys.executable,
    job: Path | None = None,
) -> None:
    """Write ds_config.json, torchrun.json, environment.json, resources.json, plan.json, provenance.json and launch.sh.

    directory: created if need be; its parent is the job's folder, unless `job` says otherwise. program: what torchrun runs, with its
    arguments (`("-m", "zerocfg.launch.worker", "payload.pkl")`); without one, launch.sh takes it as its own arguments. python: the
    interpreter of torchrun and the ranks. Each file is replaced as a whole. Values of names that look like secrets are in
    none of them.
    """
    run = placed(run, os.path.abspath(job if job is not None else directory.parent))
    directory.mkdir(parents=True, exist_ok=True)
    contents = {
        "ds_config": _plain(run.deepspeed),
        "torchrun": list(run.torchrun),
        "environment": dict(run.open_environment),
        "resources": _plain(run.resources),
        "plan": _plain(run.plan),
        "provenance": {path: _plain(entry.as_dict()) for path, entry in run.provenance.items()},
    }
    for name in _FILES:
        replace_text(directory / f"{name}.json", json.dumps(contents[name], indent=2, allow_nan=False) + "\n")
    starter = NVME_STARTER if nvme_sections(run.deepspeed) else TORCHRUN
    replace_text(directory / LAUNCH, launch_script(run, program=program, cwd=Path.cwd(), python=python, starter=starter), mode=0o700)


def read_compiled(directory: Path) -> StoredRun:
    """Read what `write_compiled` wrote. Raises ConfigProblems (ZC757), naming the files, where some are missing or damaged."""
    read: dict[str, Any] = {}
    problems = []
    types = {**get_type_hints(StoredRun), "ds_config": dict[str, Any], "plan": Plan}
    for name in _FILES[:-1]:
        path = directory / f"{name}.json"
        try:
            read[name] = json.loads(path.read_text(encoding="utf-8"))
            why = misfit(types[name], read[name], whole=True)
        except (OSError, ValueError, RecursionError) as problem:
            why = str(problem)
        if why:
            problems.append(damaged(path, why, hint="start the run by its own command, which writes the folder anew"))
    if problems:
        raise ConfigProblems(problems)
    return StoredRun(
        deepspeed=read["ds_config"],
        torchrun=tuple(read["torchrun"]),
        environment=read["environment"],
        resources=read["resources"],
        plan=read["plan"],
    )


def damaged(path: Path, why: str, *, hint: str) -> Diagnostic:
    """ZC757: a file that zerocfg keeps for itself."""
    return Diagnostic(code="ZC757", message=f"{path} cannot be read: {why}", hint=hint)


def launch_script(run: CompiledRun, *, program: Sequence[str] | None, cwd: Path, python: str, starter: str = TORCHRUN) -> str:
    """The shell script that starts one node's ranks. Runs by hand from anywhere: it finds the job's folder by its own place.

    starter: the module that is torchrun.
    """
    lines = [
        "#!/bin/sh",
        "# Starts the ranks of this run on this machine, as zerocfg started them. Re-run it by hand from anywhere.",
        *([] if program is not None else ['[ $# -gt 0 ] || { echo "usage: $0 SCRIPT.py ARGUMENTS" >&2; exit 2; }']),
        # No command substitution around $0 alone: it would strip trailing newlines of a folder's name.
        "case $0 in */*) here=${0%/*}/ ;; *) here=./ ;; esac",
        'here=$(CDPATH= cd -P -- "$here.." && pwd -P && echo x) || exit 1',
        f'export {RUN_DIR}="${{here%??}}"',
        f"cd -- {_quote(str(cwd))} || exit 1",
    ]
    if run.plan.topology.num_nodes > 1:
        lines += [f': "${{{RDZV_HOST}:?set it to the name of the first machine, the same on all}}"']
    if any(f"${RDZV_ID}" in argument for argument in run.torchrun):
        lines += [f': "${{{RDZV_ID}:=zerocfg}}"']
    lines += _exports(run)
    words = " ".join(_quote(word) for word in program) if program is not None else '"$@"'
    # words of a container are shell text already
    start = run.container or (_quote(python),)
    torchrun = (f"-u -m {starter}", *(_argument(a) for a in run.torchrun), words)
    if len(start) > 1:
        lines += [*run.container_setup, " \\\n  ".join(["exec " + start[0], *start[1:-1], f"{start[-1]} {torchrun[0]}", *torchrun[1:]])]
    else:
        lines += [" \\\n  ".join([f"exec {start[0]} {torchrun[0]}", *torchrun[1:]])]
    return "\n".join(lines) + "\n"


def _exports(run: CompiledRun) -> list[str]:
    lines = []
    for name, value in run.environment.items():
        if is_secret(name):
            lines.append(f'[ -n "${{{name}+x}}" ] || echo "{name} is not set: its value is not written here" >&2')
        elif set_by_config(run, name):
            lines.append(f"export {name}={_quote(value)}")
        else:
            lines.append(f'[ -n "${{{name}+x}}" ] || export {name}={_below_job(value)}')
    return lines


def _below_job(value: str) -> str:
    """A value of the plan as shell text; a path may begin with $ZEROCFG_RUN_DIR."""
    start, slash, rest = value.partition("/")
    return f'"{start}"/{_quote(rest)}' if slash and start == f"${RUN_DIR}" else _quote(value)


def set_by_config(run: CompiledRun, name: str) -> bool:
    """Whether the config's `env` sets this name, which then wins over the user's environment."""
    entry = run.provenance.get(f"environment.{name}")
    return entry is not None and entry.reason == f"env.{name}"


def _argument(argument: str) -> str:
    """One torchrun argument as shell text: relative paths below the job's folder, rendezvous names left to the environment."""
    option, equals, value = argument.partition("=")
    if option == "--log-dir" and equals and not os.path.isabs(value):
        return f'--log-dir="${RUN_DIR}"/{_quote(value)}'
    if option == "--rdzv-endpoint" and value.startswith(f"${RDZV_HOST}:"):
        return f'{option}="${RDZV_HOST}":"${{{RDZV_PORT}:-{value.rpartition(":")[2]}}}"'
    if option == "--rdzv-conf":
        return f'{_quote(argument)}"${{{RDZV_CONF}:+,${RDZV_CONF}}}"'
    pieces = re.split(rf"(\${RDZV_HOST}|\${RDZV_ID})", argument)
    return "".join(f'"{piece}"' if piece.startswith("$ZEROCFG_RDZV") else _quote(piece) for piece in pieces if piece)


def _quote(text: str) -> str:
    return shlex.quote(text)


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    return value


def replace_text(path: Path, text: str, *, mode: int | None = None) -> None:
    """Write a file as a whole: a reader sees the old text or the new, never half of it. mode: null leaves it to the umask."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8")
        if mode is not None:
            draft.chmod(mode)
        draft.replace(path)
    except OSError:
        with suppress(OSError):
            draft.unlink()
        raise


def set_aside(path: Path) -> Path | None:
    """Keep an earlier run's file under the first free numbered name (metrics.1.jsonl). Returns that name, None without a file."""
    if not path.exists():
        return None
    number = 1
    while (kept := path.with_name(f"{path.stem}.{number}{path.suffix}")).exists():
        number += 1
    path.rename(kept)
    return kept
