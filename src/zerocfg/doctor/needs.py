"""What a run needs of the machine, read off its plan; without a run, everything is looked at and nothing is needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from zerocfg.plan import Plan


@dataclass(frozen=True, kw_only=True, slots=True)
class Needs:
    plan: Plan | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    """What the run sets, secrets included."""
    output: str = "outputs"
    """Folder of the runs; relative to the current one."""
    slurm: bool = False
    """The run is submitted to SLURM."""
    start: bool = False
    """The run starts here and now (a preflight): slow looks at the machine are worth it."""

    @property
    def cuda(self) -> bool:
        return self.plan is not None and self.plan.hardware.is_cuda

    @property
    def gpus_matter(self) -> bool:
        return self.plan is None or self.plan.hardware.is_cuda

    @property
    def gpus(self) -> int:
        """On each node."""
        return self.plan.hardware.gpus_per_node if self.plan is not None and self.cuda else 0

    @property
    def nodes(self) -> int:
        return self.plan.topology.num_nodes if self.plan is not None else 1

    @property
    def offloads(self) -> bool:
        return self.plan is not None and "cpu" in (self.plan.offload.optimizer, self.plan.offload.param)

    @property
    def nvme(self) -> bool:
        return self.plan is not None and "nvme" in (self.plan.offload.optimizer, self.plan.offload.param)

    @property
    def container(self) -> str:
        """What the ranks will be put into; none where this runs among them already."""
        return self.plan.container.kind if self.plan is not None and not self.start else "none"

    @property
    def inside(self) -> bool:
        """The ranks run where this runs, with the software that is looked at."""
        return self.container == "none" or self.start
