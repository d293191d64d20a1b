"""python -m zerocfg.deepspeed.introspect [--write]"""

from __future__ import annotations

import sys

from zerocfg.deepspeed.introspect.release import quiet_deepspeed
from zerocfg.deepspeed.introspect.table import difference, write


def main(arguments: list[str]) -> int:
    """0: the table fits the installed release. 1: it does not (without --write), or the catalogue has gaps."""
    with quiet_deepspeed():
        if "--write" in arguments:
            write()
        lines = difference()
    for line in lines:
        print(line)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
