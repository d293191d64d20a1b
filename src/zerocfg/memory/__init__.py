"""The memory model: what a plan takes of each GPU, each node's memory and its NVMe, before anything runs.

Pure. It follows what DeepSpeed 0.19.8 allocates and when, read off its source and checked against real engines
(tests/memory/test_against_deepspeed.py), rather than a formula of bytes a parameter.
"""

from __future__ import annotations

from zerocfg.memory.activations import closed_form
from zerocfg.memory.estimate import MemoryEstimate, ModelNotDescribed, estimate
from zerocfg.memory.moments import PARTS, Moment
from zerocfg.memory.parameters import parameters_of
from zerocfg.traced import ActivationTrace, ModelParameters, Parameter

__all__ = [
    "PARTS",
    "ActivationTrace",
    "MemoryEstimate",
    "ModelNotDescribed",
    "ModelParameters",
    "Moment",
    "Parameter",
    "closed_form",
    "estimate",
    "parameters_of",
]
