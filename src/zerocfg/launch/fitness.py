"""hydra.launcher.preflight: each node is looked at, and all ranks compute and talk for some seconds, before training starts."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from zerocfg.artifact import CompiledRun
from zerocfg.emit import COMPILED, launch_script, replace_text
from zerocfg.launch.paths import PREFLIGHT, JobPaths

PREFLIGHT_SCRIPT = "preflight.sh"
"""Beside launch.sh, and the same but for the program: same environment, container, rendezvous."""


def write_preflight(run: CompiledRun, paths: JobPaths, python: str) -> None:
    """Write compiled/preflight.sh, for a folder that `folders.fill` has made ready."""
    paths.preflight.mkdir(parents=True, exist_ok=True)
    # logs of its own: those of the training are not to be mixed with them
    arguments = tuple(f"--log-dir={PREFLIGHT}/torchrun" if word.startswith("--log-dir=") else word for word in run.torchrun)
    text = launch_script(
        dataclasses.replace(run, torchrun=arguments), program=("-m", "zerocfg.doctor.node_check"), cwd=Path.cwd(), python=python
    )
    replace_text(paths.root / COMPILED / PREFLIGHT_SCRIPT, text, mode=0o700)


def preflight_command(python: str, command: Sequence[str]) -> tuple[str, ...]:
    """What a node runs in place of `command`, which names a launch.sh: first the same with preflight.sh, then, where all nodes are fit,
    the command itself. Environment: ZEROCFG_RUN_DIR, and the rendezvous as for the command."""
    return (python, "-m", "zerocfg.doctor.preflight", *command)
