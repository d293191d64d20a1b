"""What `zerocfg calibrate` wrote for a machine: a small JSON in the user's cache folder, by GPU name and count."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from zerocfg.facts import HardwareFacts


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "zerocfg"


def calibration_file(gpu: str, gpus_per_node: int, num_nodes: int = 1) -> Path:
    """gpu: the data sheet's name, or NVML's; cpu for a machine without."""
    name = re.sub(r"[^a-z0-9]+", "-", gpu.lower().removeprefix("nvidia")).strip("-") or "cpu"
    return cache_folder() / f"calibration-{name}-x{gpus_per_node}{f'-n{num_nodes}' if num_nodes > 1 else ''}.json"


def stored_calibration(hardware: HardwareFacts) -> dict[str, Any] | None:
    """None when this hardware was never calibrated, or its file cannot be read."""
    file = calibration_file(hardware.gpu if hardware.is_cuda else "cpu", hardware.gpus_per_node, hardware.num_nodes)
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return {**found, "source": f"calibration of this machine ({file.name})"} if isinstance(found, dict) else None
