"""Starts the ranks that measure."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from zerocfg.errors import ZerocfgError

TIMEOUT_S = 180


class CalibrationFailed(ZerocfgError):
    """The ranks did not end well; str() ends with what they said last."""


def calibrate(ranks: int, cpus_per_rank: int) -> dict[str, Any]:
    """Measure with `ranks` processes on this machine, one a GPU. Raises CalibrationFailed."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "calibration.json")
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
        environment = {**os.environ, "OMP_NUM_THREADS": str(max(1, cpus_per_rank))}
        try:
            done = subprocess.run(
                [*command, "-m", "zerocfg.calibrate", str(out)],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as slow:
            raise CalibrationFailed(f"no end after {TIMEOUT_S} s") from slow
        if done.returncode or not out.is_file():
            raise CalibrationFailed("\n".join(done.stdout.strip().splitlines()[-15:]))
        found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
        return found
