"""zerocfg calibrate: measure this machine for the planner."""

from __future__ import annotations

import json
import time
from pathlib import Path

from zerocfg.calibrate.run import CalibrationFailed, calibrate
from zerocfg.cli import output
from zerocfg.cli.outcome import examine_overrides
from zerocfg.probe.calibration import calibration_file
from zerocfg.units import counted, human_bytes


def calibrate_command(*, gpus: int | None = None, as_json: bool = False) -> int:
    """Measure, write the file that `zerocfg plan` reads, print it. gpus: ranks; the default is every GPU, or two on cpu.

    Status 1 when the ranks fail or this machine cannot be read, 2 for more ranks than it has GPUs or cores.
    """
    overrides = ["hardware=auto", "model=none", "precision=fp32"]
    result = examine_overrides(overrides, None, None)
    if result.plan is None or result.run is None:
        output.report(result.diagnostics)
        return 1
    hardware = result.plan.hardware
    ranks = gpus or hardware.gpus_per_node
    most, units = (hardware.gpus_per_node, "GPU") if hardware.is_cuda else (hardware.cpus_per_node, "core")
    if ranks > max(most, hardware.gpus_per_node):
        output.say(f"--gpus {ranks}: this machine has {counted(most, units)}")
        return 2
    gpu = hardware.gpu if hardware.is_cuda else "cpu"
    file = calibration_file(gpu, ranks)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        return _cannot_write(file, problem)
    start = time.monotonic()
    output.say(f"measuring {ranks} x {gpu}, a minute or two")
    try:
        found = calibrate(ranks, hardware.cpus_per_node // ranks)
    except CalibrationFailed as failed:
        output.say(f"calibration failed: {failed}")
        return 1
    found |= {"hardware": gpu, "seconds": round(time.monotonic() - start, 1)}
    try:
        file.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    except OSError as problem:
        return _cannot_write(file, problem)
    if as_json:
        output.product_json(found)
    else:
        output.product("\n".join(lines(found)))
    output.say(f"written to {file}")
    return 0


def _cannot_write(file: Path, problem: OSError) -> int:
    output.say(f"{file} cannot be written: {problem.strerror or problem}")
    return 1


def lines(found: dict[str, object]) -> list[str]:
    """A line a number; of a collective the bytes that cross a link, their time and the bus bandwidth of nccl-tests."""
    rows = []
    for name, value in found.items():
        if isinstance(value, dict):
            rows += [f"{f'{name}.{key}':24}{number:.4g}" for key, number in value.items()]
        elif isinstance(value, list):
            rows += [f"{name:15}{human_bytes(size):>8}{us:12,.1f} us{size / us / 1e3:10.3f} GB/s" for size, us in value]
        else:
            rows.append(f"{name:24}{value:.4g}" if isinstance(value, float) else f"{name:24}{value}")
    return rows
