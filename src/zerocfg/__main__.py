"""python -m zerocfg"""

import sys

from zerocfg.cli import main

if __name__ == "__main__":
    sys.exit(main())
