"""Torchrun on a node whose ranks swap to NVMe: `python -m zerocfg.launch.nvme`, with torchrun's arguments, started by launch.sh.

Holds the job's own folder for swap files (runtime/swap_folder.py) as long as torchrun runs, however that ends.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import ExitStack
from pathlib import Path

from zerocfg.diagnostics import ConfigProblems
from zerocfg.emit import COMPILED, RUN_DIR, read_compiled, replace_text
from zerocfg.launch.paths import JobPaths
from zerocfg.runtime.stored_plan import plan_from
from zerocfg.runtime.swap_folder import check_space, claimed, folders_of


def main(arguments: list[str]) -> None:
    """Torchrun, in this very process: its signals and its exit status are torchrun's own."""
    paths = JobPaths(Path(os.environ[RUN_DIR]))
    stored = read_compiled(paths.root / COMPILED)
    with ExitStack() as stack:
        try:
            for folder in folders_of(stored.deepspeed):
                stack.enter_context(claimed(folder))
            problems = [*check_space(stored.deepspeed, plan_from(stored.plan))]
            if problems:
                raise ConfigProblems(problems)
        except ConfigProblems as refused:
            text = f"on {os.uname().nodename}:\n{refused}"
            replace_text(paths.refusal(os.uname().nodename), text)
            sys.exit(text)
        from torch.distributed.run import main as torchrun

        try:
            torchrun(arguments)
        finally:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
                signal.signal(number, signal.SIG_IGN)  # asked for already: the folder goes first


if __name__ == "__main__":
    main(sys.argv[1:])
