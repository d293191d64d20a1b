"""Which GPUs a job gets: for now the first ones of the launcher's own mask, whole machine to one job after another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from zerocfg.artifact import Resources

MASK = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True, slots=True)
class Allocation:
    """What a job may use, as environment. None unsets a name."""

    environment: Mapping[str, str | None] = field(default_factory=dict)


def allocate(resources: Resources | None, environ: Mapping[str, str], found: int) -> Allocation:
    """The inherited mask, cut to the job's GPUs. Entries are kept as they are written: indices, UUIDs, MIG names.

    resources: None for an app without zerocfg's groups. found: GPUs visible to the launcher.
    """
    inherited = environ.get(MASK)
    wanted = resources.gpus_per_node if resources is not None else 0
    if wanted == 0 or (inherited is None and wanted >= found):
        return Allocation({MASK: inherited})
    entries = [str(i) for i in range(found)] if inherited is None else [e.strip() for e in inherited.split(",") if e.strip()]
    return Allocation({MASK: ",".join(entries[:wanted])})
