"""What `zerocfg calibrate` wrote for a machine: a small JSON in the user's cache folder, by GPU name and count."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zerocfg.diagnostics import Diagnostic, Severity
from zerocfg.facts import Detected, HardwareFacts

if TYPE_CHECKING:
    from zerocfg.compiler import Decision
    from zerocfg.schema import RunConfig

CODES: dict[str, str] = {
    "ZC513": "A calibration file cannot be used; the data sheet is.",
}
LABELS = ("gpu", "torch", "hardware")
"""Texts: what was measured."""
RATES = (
    *("matmul_tflops", "attention_tflops", "memory_gbps", "launch_us", "h2d_gbps", "d2h_gbps"),
    *("cpu_adam_per_core", "stage3_module_us"),
)
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter")


@dataclass(frozen=True, slots=True)
class Stored:
    """A calibration, or why there is none."""

    found: Mapping[str, Any] | None = None
    """As planner.rates.calibrated takes it; `source` says where it is from."""
    problems: tuple[Diagnostic, ...] = ()


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "zerocfg"


def calibration_file(gpu: str, gpus_per_node: int, num_nodes: int = 1) -> Path:
    """gpu: the data sheet's name, or NVML's; cpu for a machine without."""
    return cache_folder() / f"{_stem(gpu)}-x{gpus_per_node}{f'-n{num_nodes}' if num_nodes > 1 else ''}.json"


def _stem(gpu: str) -> str:
    name = re.sub(r"[^a-z0-9]+", "-", gpu.lower().removeprefix("nvidia")).strip("-") or "cpu"
    return f"calibration-{name}"


def stored_calibration(hardware: HardwareFacts) -> Stored:
    """Of this hardware; of the same GPU in another number without its collectives; nothing where it was never calibrated."""
    gpu = hardware.gpu if hardware.is_cuda else "cpu"
    file = calibration_file(gpu, hardware.gpus_per_node, hardware.num_nodes)
    if file.exists():
        return _read(file, gpu)
    others = sorted(file.parent.glob(f"{_stem(gpu)}-x*.json")) if file.parent.is_dir() else []
    for other in others:
        stored = _read(other, gpu)
        if stored.found is None:
            continue
        kept = {name: value for name, value in stored.found.items() if name not in COLLECTIVES}
        ranks = f"{hardware.num_nodes} nodes of " if hardware.num_nodes > 1 else ""
        source = f"calibration of the same GPU ({other.name}), links of {ranks}{hardware.gpus_per_node} by the data sheet"
        return replace(stored, found={**kept, "source": source})
    return Stored()


def _read(file: Path, gpu: str) -> Stored:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except OSError as problem:
        return _refused(file, f"cannot be read: {problem.strerror or problem}")
    except ValueError as problem:
        return _refused(file, f"is not JSON: {problem}")
    if not isinstance(found, dict):
        return _refused(file, f"holds {type(found).__name__}, not an object")
    if found.get("hardware", gpu) != gpu:
        return _refused(file, f"was measured on {found['hardware']}, and this run is for {gpu}")
    wrong = [name for name, value in found.items() if not _usable(name, value)]
    if wrong:
        return _refused(file, f"has no measurement in {', '.join(wrong)}")
    if not any(name in found for name in (*RATES, *COLLECTIVES)):
        return _refused(file, "has no measurement")
    return Stored({**found, "source": f"calibration of this machine ({file.name})"})


def _usable(name: str, value: object) -> bool:
    """Positive numbers, by dtype or by size where there are several; texts say what was measured."""
    if name in LABELS:
        return isinstance(value, str)
    if name == "matmul_tflops":
        return isinstance(value, dict) and all(map(_is_rate, value.values()))
    if name in COLLECTIVES:
        pairs = isinstance(value, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in value)
        return pairs and bool(value) and all(_is_rate(number) for pair in value for number in pair)  # type: ignore[attr-defined]
    return _is_rate(value) or (name.startswith("stage3_") and value == 0)


def _is_rate(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < float("inf")


def _refused(file: Path, why: str) -> Stored:
    return Stored(
        problems=(
            Diagnostic(
                code="ZC513",
                severity=Severity.WARNING,
                message=f"{file} {why}",
                detail=("the data sheet is used instead",),
                hint="zerocfg calibrate on the machine that trains, or delete the file",
            ),
        )
    )


def decide(config: RunConfig, detected: Detected | None, torch: str = "") -> Decision:
    """The planner's choice with what this user has calibrated."""
    from zerocfg.planner import decide as planned

    def stored(hardware: HardwareFacts) -> tuple[Mapping[str, Any] | None, tuple[Diagnostic, ...]]:
        calibration = stored_calibration(hardware)
        return calibration.found, calibration.problems

    return planned(config, detected, torch, stored=stored)
