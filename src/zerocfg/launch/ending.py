"""How the process of a rank ends. Imports nothing but what registers no exit handler of its own."""

from __future__ import annotations

import atexit
import os
import sys


def run(arguments: list[str]) -> None:
    """zerocfg.launch.rank.main, and the end of the process with its status, after all exit handlers.

    The interpreter is not taken apart: threads of torch's and gloo's still run, and one that meets its own destructor aborts a rank
    that has done its work ("terminate called without an active exception", seen with two gloo ranks). Not for a script's own process.
    """
    ended = [1]

    def leave() -> None:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(ended[0])

    atexit.register(leave)  # the first that is registered is the last that is called

    from zerocfg.launch.rank import main

    ended[0] = main(arguments)
    sys.exit(ended[0])
