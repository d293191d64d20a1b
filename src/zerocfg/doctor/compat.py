"""Which driver, CUDA and torch go together.

Sources: NVIDIA's CUDA release notes (minor-version compatibility), metadata of torch's wheels.
"""

from __future__ import annotations

import re

Version = tuple[int, ...]

MIN_DRIVER: dict[int, Version] = {11: (450, 80, 2), 12: (525, 60, 13), 13: (580,)}
"""CUDA major version -> oldest Linux driver for a program built with any of its minor versions."""
LAST_TORCH: dict[int, str] = {11: "2.3", 12: "2.10"}
"""CUDA major version -> newest torch whose wheel on PyPI is built with it; 13 is the current one."""
LEAST_TORCH: Version = (2, 7)
"""What zerocfg runs with."""
_MIN_CAPABILITY: dict[int, tuple[int, int]] = {11: (3, 7), 12: (5, 0), 13: (7, 5)}
"""CUDA major version -> oldest GPUs that it compiles for: CUDA 13 dropped Maxwell, Pascal and Volta."""
_FIRST_CUDA: tuple[tuple[tuple[int, int], Version], ...] = (((10, 0), (12, 8)), ((9, 0), (11, 8)), ((8, 9), (11, 8)), ((8, 0), (11, 0)))
"""Compute capability -> first CUDA that compiles for it, the newest first."""


def version(text: str) -> Version:
    """Leading numbers: 535.104.05 -> (535, 104, 5), 2.13.0+cu130 -> (2, 13, 0); () where there are none."""
    found = re.match(r"\d+(\.\d+)*", text.strip())
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def dotted(numbers: Version) -> str:
    return ".".join(map(str, numbers))


def driver_runs(driver: Version, driver_cuda: Version, cuda: Version) -> bool:
    """Whether a program built for `cuda` starts. driver_cuda: of the libcuda that is found, newer than the driver's own where NVIDIA's
    forward-compatibility package is installed."""
    least = MIN_DRIVER.get(cuda[0])
    if least is None:
        # a CUDA newer than this table: the driver must know it itself
        return bool(driver_cuda) and driver_cuda[0] >= cuda[0]
    return driver >= least or (bool(driver_cuda) and driver_cuda[0] >= cuda[0])


def needed_driver(cuda: Version) -> str:
    return dotted(MIN_DRIVER[cuda[0]]) if cuda[0] in MIN_DRIVER else f"one for CUDA {cuda[0]}"


def torch_for(driver: Version) -> str:
    """Newest torch whose wheel runs on this driver, "torch==2.10.*"; empty where none that zerocfg runs with does."""
    known = [major for major, least in MIN_DRIVER.items() if driver >= least and version(LAST_TORCH.get(major, "")) >= LEAST_TORCH]
    return f"torch=={LAST_TORCH[max(known)]}.*" if known else ""


def has_code_for(capability: tuple[int, int], cuda: Version) -> bool:
    """Whether a torch build with this CUDA can have code for the GPU."""
    if capability < _MIN_CAPABILITY.get(cuda[0], (0, 0)):
        return False
    first = next((first for least, first in _FIRST_CUDA if capability >= least), ())
    return cuda >= first


def xid_meaning(number: int) -> tuple[str, bool]:
    """(what the driver's error number says, whether the GPU or its link is broken rather than a program). From NVIDIA's Xid catalogue."""
    return _XIDS.get(number, ("see NVIDIA's Xid catalogue", False))


_XIDS: dict[int, tuple[str, bool]] = {
    13: ("a program's illegal instruction or address", False),
    31: ("a program's memory access fault", False),
    43: ("a program's fault ended its channel", False),
    45: ("a program was ended early", False),
    48: ("uncorrectable memory error", True),
    62: ("internal micro-controller halt", True),
    63: ("a memory row was replaced, in effect after a reset", True),
    64: ("a memory row could not be replaced", True),
    74: ("NVLink error", True),
    79: ("the GPU has fallen off the bus", True),
    92: ("many correctable memory errors", True),
    94: ("contained memory error", True),
    95: ("uncontained memory error", True),
    119: ("the GPU's system processor does not answer", True),
    120: ("error of the GPU's system processor", True),
    149: ("NVLink error", True),
}
