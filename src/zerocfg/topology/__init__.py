"""How the GPUs of one machine reach each other, and which of them a job should take. Pure."""

from zerocfg.topology.choose import choose
from zerocfg.topology.matrix import Device, Matrix
from zerocfg.topology.parse import parse

__all__ = ["Device", "Matrix", "choose", "parse"]
