"""Shared field types. OmegaConf refuses Literal and a float for an int field, hence Enum and `Count`."""

from __future__ import annotations

from enum import Enum
from typing import Union

Count = Union[int, float]
"""A whole number that may be written 5e8. Text such as "8" is refused; 2.5 is refused when the run is resolved (ZC103)."""

CountOrAuto = Union[int, float, str]
"""A `Count`, or the word auto where the field's docstring allows it."""


class Accelerator(Enum):
    cpu = "cpu"
    cuda = "cuda"


class LinkKind(Enum):
    """How accelerators of one node reach each other."""

    nvswitch = "nvswitch"
    nvlink = "nvlink"
    pcie = "pcie"
    none = "none"


class NetworkKind(Enum):
    """How nodes reach each other."""

    infiniband = "infiniband"
    roce = "roce"
    efa = "efa"
    tcp = "tcp"
    none = "none"


class DType(Enum):
    """DeepSpeed's spelling of dtypes in communication_data_type."""

    fp32 = "fp32"
    fp16 = "fp16"
    bf16 = "bf16"


class OffloadDevice(Enum):
    none = "none"
    cpu = "cpu"
    nvme = "nvme"


class Mlp(Enum):
    gelu = "gelu"
    swiglu = "swiglu"


class Norm(Enum):
    layernorm = "layernorm"
    rmsnorm = "rmsnorm"


class Positions(Enum):
    learned = "learned"
    rotary = "rotary"


# OmegaConf reads an option by its name, and torchrun's own spelling is no name in Python
NumaBinding = Enum(
    "NumaBinding", {"none": "none", "node": "node", "socket": "socket", "exclusive": "exclusive", "core-complex": "core-complex"}
)
"""torchrun --numa-binding; `none` leaves the option out."""


class Profile(Enum):
    """How closely the training loop looks at its own time."""

    none = "none"
    steps = "steps"
    comms = "comms"
    torch = "torch"
