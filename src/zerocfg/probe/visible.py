"""CUDA_VISIBLE_DEVICES, read as the CUDA driver reads it. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

NAME = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True, slots=True)
class Device:
    """What a mask can name: a whole GPU, with its MIG slices where MIG is on."""

    uuid: str
    slices: tuple[str, ...] = field(default=())
    """UUIDs of the MIG slices, in order."""
    mig: bool = False
    """MIG mode is on; without slices nothing can run there."""


Choice = tuple[int, int | None]
"""Index of the device and, where MIG is on, of its slice."""


def choose(mask: str | None, devices: Sequence[Device]) -> tuple[list[Choice], str]:
    """Devices that CUDA would enumerate, in its order, and why some or all are left out ("" where none is).

    Indices, or prefixes of GPU-... or MIG-... UUIDs, separated by commas; the first kind decides. The first entry that names
    no device, or several, ends the list; a device named twice empties it. CUDA uses one MIG slice of all that it may see.
    """
    if mask is None:
        return _with_mig([(i, None) for i in range(len(devices))], devices, "")
    stripped = mask.strip()
    if not stripped:
        return [], f"{NAME} is empty: {_all(devices)} hidden"
    entries = [entry.strip() for entry in stripped.split(",")]
    kind = _kind(entries[0])
    chosen: list[Choice] = []
    for entry in entries:
        match = _match(entry, devices) if _kind(entry) == kind else None
        if match is None:
            rest = "it and what follows are ignored" if chosen else f"{_all(devices)} hidden"
            return _with_mig(chosen, devices, f"{NAME}={mask}: {entry!r} names no GPU of the {len(devices)} here; {rest}")
        if match in chosen:
            return [], f"{NAME}={mask}: {entry!r} is named twice, for which CUDA hides everything"
        chosen.append(match)
    return _with_mig(chosen, devices, "")


def _all(devices: Sequence[Device]) -> str:
    return "the one GPU is" if len(devices) == 1 else f"all {len(devices)} GPUs are"


def _kind(entry: str) -> str:
    return entry[:4] if entry[:4] in ("GPU-", "MIG-") else "index"


def _match(entry: str, devices: Sequence[Device]) -> Choice | None:
    if entry.startswith("MIG-GPU-"):  # before driver R470: MIG-<GPU UUID>/<GPU instance>/<compute instance>
        return _only([(i, j) for i, d in enumerate(devices) for j, uuid in enumerate(d.slices) if uuid == entry])
    if entry.startswith("MIG-"):
        return _only([(i, j) for i, d in enumerate(devices) for j, uuid in enumerate(d.slices) if uuid.startswith(entry)])
    if entry.startswith("GPU-"):
        return _only([(i, None) for i, d in enumerate(devices) if d.uuid.startswith(entry)])
    digits = re.match(r"[+-]?\d+", entry)  # as strtol: "1gpu" is 1
    index = int(digits.group()) if digits else -1
    return (index, None) if 0 <= index < len(devices) else None


def _only(matches: Sequence[Choice]) -> Choice | None:
    return matches[0] if len(matches) == 1 else None


def _with_mig(chosen: list[Choice], devices: Sequence[Device], reason: str) -> tuple[list[Choice], str]:
    """A GPU in MIG mode stands for its first slice, and one slice is all that a process can use."""
    resolved: list[Choice] = []
    for index, part in chosen:
        if devices[index].mig and part is None:
            if devices[index].slices:
                resolved.append((index, 0))
            else:
                reason = reason or f"GPU {index} is in MIG mode and has no slice"
        else:
            resolved.append((index, part))
    slices = [c for c in resolved if c[1] is not None]
    if not slices:
        return resolved, reason
    if resolved[0][1] is not None:
        return resolved[:1], reason or ("CUDA uses one MIG slice a process" if len(resolved) > 1 else "")
    return [c for c in resolved if c[1] is None], reason or "a GPU in MIG mode is left out beside whole GPUs"
