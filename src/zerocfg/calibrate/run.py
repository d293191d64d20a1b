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

TIMEOUT_S, GRACE_S = 180, 60
"""Of the measurement; from the request to end until SIGKILL: torchrun gives its ranks half of it."""


class CalibrationFailed(ZerocfgError):
    """The ranks did not end well; str() ends with what they said last."""


def calibrate(ranks: int, cpus_per_rank: int) -> dict[str, Any]:
    """Measure with `ranks` processes on this machine, one a GPU. Raises CalibrationFailed. No rank is left, however it ends."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "calibration.json")
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
        environment = {**os.environ, "OMP_NUM_THREADS": str(max(1, cpus_per_rank))}
        command += ["-m", "zerocfg.calibrate", str(out)]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            try:
                said = process.communicate(timeout=TIMEOUT_S)[0]
            except subprocess.TimeoutExpired as slow:
                raise CalibrationFailed(f"no end after {TIMEOUT_S} s") from slow
            finally:
                _end(process)
        if process.returncode or not out.is_file():
            raise CalibrationFailed("\n".join(said.strip().splitlines()[-15:]))
        found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
        return found


def _end(process: subprocess.Popen[str]) -> None:
    """torchrun ends its ranks when it is asked to; killed it would leave them."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
