"""How the process of a rank ends. Imports nothing but what registers no exit handler of its own."""

from __future__ import annotations

import atexit
import os
import sys
from typing import NoReturn


def leave(status: int) -> NoReturn:
    """End the process without taking the interpreter apart, which can abort a rank that has done its work.

    A gloo thread drops the tensors of a collective after the caller has gone on. Where that needs the interpreter's lock while the
    interpreter ends, Python before 3.14 ends the thread inside a C++ destructor: "terminate called without an active exception".
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)


def run(arguments: list[str]) -> None:
    """zerocfg.launch.rank.main, and the end of the process with its status, after all exit handlers.

    Not for a script's own process.
    """
    ended = [1]
    atexit.register(lambda: leave(ended[0]))  # the first that is registered is the last that is called

    from zerocfg.launch.rank import main

    ended[0] = main(arguments)
    sys.exit(ended[0])
