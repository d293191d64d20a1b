"""Which run this process belongs to."""

from __future__ import annotations

import atexit
import os
import socket
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from zerocfg.artifact import CompiledRun
from zerocfg.diagnostics import ConfigProblems, Diagnostic
from zerocfg.emit import COMPILED, RUN_DIR, read_compiled, write_compiled
from zerocfg.runtime.run import Run
from zerocfg.runtime.swap_folder import claimed, folders_of

_current: list[Run] = []


def current_run() -> Run:
    """The run of this process; the same object at each call.

    In a rank that zerocfg started (also by compiled/launch.sh): its part of that run. With hydra.mode=RUN, inside an
    @hydra.main function: a run of one process, compiled here for one rank (hardware.num_nodes=1, gpus_per_node=1), so that
    a debugger can follow; the global batch is kept, by accumulation. Anywhere else: ConfigProblems (ZC780).
    """
    if not _current:
        _current.append(_of_rank(os.environ) if RUN_DIR in os.environ else _of_hydra_job())
        atexit.register(_fail_unsaved)
    return _current[0]


def check_saved() -> None:
    """At the end of the script's work. Raises ConfigProblems (ZC774), once, where the checkpoint after the last step could not be
    written: the run went on (checkpoint.on_error=continue), and it must not look as if its work were safe."""
    for run in _current:
        if (problem := run.unsaved) is not None:
            run.unsaved = None
            raise ConfigProblems([problem])


def _fail_unsaved() -> None:
    """A script that zerocfg does not call ends by itself: after everything that was registered since, with status 1."""
    try:
        check_saved()
    except ConfigProblems as problems:
        print(problems, file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)


def _of_rank(environ: Mapping[str, str]) -> Run:
    root = Path(environ[RUN_DIR])
    if not (root / COMPILED).is_dir():
        raise ConfigProblems(
            [
                Diagnostic(
                    code="ZC780",
                    message=f"this app composes none of zerocfg's groups, so that there is no compiled run in {root}",
                    hint="add `- zerocfg` to the defaults list of the app's primary config",
                )
            ]
        )
    return Run(
        read_compiled(root / COMPILED),
        output_dir=root,
        rank=int(environ.get("RANK", "0")),
        local_rank=int(environ.get("LOCAL_RANK", "0")),
        world_size=int(environ.get("WORLD_SIZE", "1")),
    )


def _of_hydra_job() -> Run:
    from hydra.core.hydra_config import HydraConfig

    if os.environ.get("WORLD_SIZE", "1") != "1":
        raise ConfigProblems([_nowhere("several ranks were started without zerocfg: each would compose a config of its own")])
    if not HydraConfig.initialized():
        raise ConfigProblems([_nowhere("this process was not started by zerocfg, and no Hydra job is running in it")])
    compiled = _compile_for_one()
    root = Path(HydraConfig.get().runtime.output_dir)
    write_compiled(compiled, root / COMPILED)
    _own_nvme_folders(read_compiled(root / COMPILED).deepspeed)
    for name, value in compiled.environment.items():
        os.environ.setdefault(name, value.replace(f"${RUN_DIR}", str(root)))
    alone = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port())}
    for name, value in alone.items():
        os.environ.setdefault(name, value)
    return Run(read_compiled(root / COMPILED), output_dir=root, rank=0, local_rank=0, world_size=1)


def _own_nvme_folders(deepspeed: Mapping[str, Any]) -> None:
    """Until this process ends."""
    stack = ExitStack()
    for folder in folders_of(deepspeed):
        stack.enter_context(claimed(folder))
    atexit.register(stack.close)


def _compile_for_one() -> CompiledRun:
    from hydra.core.hydra_config import HydraConfig
    from omegaconf import DictConfig

    from zerocfg.compiler import compile_run
    from zerocfg.compose import compose_job, uses_groups
    from zerocfg.probe import detect
    from zerocfg.probe.calibration import decide

    instance = HydraConfig.instance()
    assert isinstance(instance.cfg, DictConfig)
    overrides = [*instance.cfg.hydra.overrides.task, "hardware.num_nodes=1", "hardware.gpus_per_node=1"]
    composed = compose_job(instance.cfg, overrides)
    if len(composed.cfg) and not uses_groups(composed.cfg):
        hint = "`- zerocfg` as the first entry of its defaults list"
        raise ConfigProblems([replace(_nowhere("this app's config has none of zerocfg's groups"), hint=hint)])
    if not composed.container or any(d.severity == 0 for d in composed.diagnostics):
        raise ConfigProblems(composed.diagnostics)
    return compile_run(composed.container, origins=composed.origins, detect=detect, environ=os.environ, decide=decide)


def _nowhere(why: str) -> Diagnostic:
    return Diagnostic(
        code="ZC780",
        message=f"there is no current run: {why}",
        hint="python SCRIPT overrides (the launcher starts the ranks); hydra.mode=RUN for one process",
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
