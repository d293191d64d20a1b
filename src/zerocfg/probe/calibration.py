"""What `zerocfg calibrate` wrote for a machine: a small JSON in the user's cache folder, by GPU name and count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zerocfg.diagnostics import Diagnostic
from zerocfg.facts import Detected, HardwareFacts
from zerocfg.planner.rates import COLLECTIVES
from zerocfg.probe.cache import are_pairs, cache_folder, is_rate, read_object, refused, stem
from zerocfg.probe.links import stored_links

if TYPE_CHECKING:
    from zerocfg.compiler import Decision
    from zerocfg.schema import RunConfig

LABELS = ("gpu", "torch", "hardware")
"""Texts: what was measured."""
RATES = (
    *("matmul_tflops", "attention_tflops", "memory_gbps", "launch_us", "h2d_gbps", "d2h_gbps"),
    *("cpu_adam_per_core", "stage3_module_us"),
)


@dataclass(frozen=True, slots=True)
class Stored:
    """A calibration, or why there is none."""

    found: Mapping[str, Any] | None = None
    """As planner.rates.calibrated takes it; `source` says where it is from."""
    problems: tuple[Diagnostic, ...] = ()


def calibration_file(gpu: str, gpus_per_node: int, num_nodes: int = 1) -> Path:
    """gpu: the data sheet's name, or NVML's; cpu for a machine without."""
    return cache_folder() / f"{_stem(gpu)}-x{gpus_per_node}{f'-n{num_nodes}' if num_nodes > 1 else ''}.json"


def _stem(gpu: str) -> str:
    return f"calibration-{stem(gpu.lower().removeprefix('nvidia'))}"


def stored_calibration(hardware: HardwareFacts) -> Stored:
    """Of this hardware; of the same GPU in another number without its collectives; nothing where it was never calibrated.

    Collectives: what `zerocfg bench comm` measured on this hardware, unless it was calibrated since.
    """
    gpu = hardware.gpu if hardware.is_cuda else "cpu"
    file = calibration_file(gpu, hardware.gpus_per_node, hardware.num_nodes)
    stored = _read(file, gpu) if file.exists() else _of_another_number(file, gpu)
    links = stored_links(hardware)
    problems = (*stored.problems, *links.problems)
    found = dict(stored.found or {})
    measured = any(name in found for name in COLLECTIVES)
    if links.points and not (measured and file.stat().st_mtime > links.file.stat().st_mtime):
        source = f"{found.get('source', 'data sheet')}, links by zerocfg bench comm ({links.file.name})"
        return Stored({**found, **links.points, "source": source}, problems)
    if found and not file.exists():
        ranks = f"{hardware.num_nodes} nodes of " if hardware.num_nodes > 1 else ""
        found["source"] += f", links of {ranks}{hardware.gpus_per_node} by the data sheet"
    return Stored(found or None, problems)


def _of_another_number(file: Path, gpu: str) -> Stored:
    """Without collectives. file: the one that is missing."""
    for other in sorted(file.parent.glob(f"{_stem(gpu)}-x*.json")) if file.parent.is_dir() else []:
        stored = _read(other, gpu)
        if stored.found is not None:
            kept = {name: value for name, value in stored.found.items() if name not in COLLECTIVES}
            return replace(stored, found={**kept, "source": f"calibration of the same GPU ({other.name})"})
    return Stored()


def _read(file: Path, gpu: str) -> Stored:
    found = read_object(file)
    if isinstance(found, str):
        return _refused(file, found)
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
        return isinstance(value, dict) and all(map(is_rate, value.values()))
    if name in COLLECTIVES:
        return are_pairs(value) and bool(value)
    return is_rate(value) or (name.startswith("stage3_") and value == 0)


def _refused(file: Path, why: str) -> Stored:
    return Stored(problems=(refused(file, why, "zerocfg calibrate on the machine that trains, or delete the file"),))


def decide(config: RunConfig, detected: Detected | None, torch: str = "") -> Decision:
    """The planner's choice with what this user has calibrated."""
    from zerocfg.planner import decide as planned

    def stored(hardware: HardwareFacts) -> tuple[Mapping[str, Any] | None, tuple[Diagnostic, ...]]:
        calibration = stored_calibration(hardware)
        return calibration.found, calibration.problems

    return planned(config, detected, torch, stored=stored)
