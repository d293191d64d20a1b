"""One rank: `torchrun -m zerocfg.calibrate OUT.json`."""

from __future__ import annotations

import sys

from zerocfg.calibrate.measure import measure_here

measure_here(sys.argv[1])
