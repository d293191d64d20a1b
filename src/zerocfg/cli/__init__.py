"""The command `zerocfg`. Reports go to stderr, products to stdout. Exit status: 0 clean, 1 errors, 2 wrong usage."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from typing import NoReturn


def entry() -> NoReturn:
    """The console script: main, then out at once. Taking the interpreter apart object by object is a twentieth of a compile."""
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; argv without the program's name."""
    collecting = gc.isenabled()
    # short-lived: collecting garbage is a tenth of a compile
    gc.disable()
    try:
        return _main(argv)
    finally:
        if collecting:
            gc.enable()


def _main(argv: Sequence[str] | None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    if hasattr(sys.stdout, "reconfigure"):
        # a path with bytes that are no text must not end in a traceback
        sys.stdout.reconfigure(errors="backslashreplace")
    from zerocfg.cli.quick import quick
    from zerocfg.errors import ZerocfgError

    try:
        status = quick(words)
        if status is None:
            from zerocfg.cli.app import run

            status = run(words)
        sys.stdout.flush()
    except ZerocfgError as problem:
        print(problem, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # `zerocfg explain | head`: the reader has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status
