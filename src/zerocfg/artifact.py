"""CompiledRun: what is run, as plain data. What is written to a job's folder is this, and the worker reads it back."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from zerocfg.diagnostics import Diagnostic
from zerocfg.hidden import is_secret
from zerocfg.plan import Plan
from zerocfg.provenance import Entry


@dataclass(frozen=True, kw_only=True, slots=True)
class Resources:
    """What one job occupies; the launchers schedule by it."""

    num_nodes: int
    gpus_per_node: int
    """0 on cpu."""
    gpu: str
    """Model name; empty on cpu."""
    ranks_per_node: int
    cpus_per_node: int
    """Cores wanted on each machine."""
    memory_bytes_per_gpu: int
    host_memory_bytes: int
    """Main memory of one machine."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledRun:
    deepspeed: Mapping[str, Any]
    """The JSON for deepspeed.initialize: no "auto", no null."""
    torchrun: tuple[str, ...]
    """Arguments of torchrun before the script; paths in them are relative to the job's folder."""
    environment: Mapping[str, str]
    """What the run sets. Values already in the user's environment are kept unless `env` sets them."""
    resources: Resources
    plan: Plan
    provenance: Mapping[str, Entry]
    """Emitted path -> entry: deepspeed leaves by their JSON path, others as torchrun.NAME, environment.NAME, resources.NAME,
    container.NAME."""
    container: tuple[str, ...] = ()
    """Words of a shell that put the ranks into a container, its interpreter last; empty: on the machine itself."""
    container_setup: tuple[str, ...] = ()
    """Lines of a shell before them."""
    diagnostics: tuple[Diagnostic, ...] = ()
    """Warnings and notes; a run with errors is never compiled."""

    @property
    def open_environment(self) -> dict[str, str]:
        """What may be written or shown: without the names that look like secrets."""
        return {name: value for name, value in self.environment.items() if not is_secret(name)}

    def as_dict(self) -> dict[str, Any]:
        """The shape of `zerocfg compile --json`."""
        return {
            "deepspeed": dict(self.deepspeed),
            "torchrun": list(self.torchrun),
            "environment": self.open_environment,
            "resources": asdict(self.resources),
            **({"container": list(self.container)} if self.container else {}),
        }


NVME_SECTIONS = ("offload_optimizer", "offload_param")
NVME_PREFIX = "zerocfg-"
"""Start of the name of a job's own folder below offload.nvme_path."""


def nvme_sections(deepspeed: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The sections of a DeepSpeed JSON that swap to NVMe, by name."""
    zero = deepspeed.get("zero_optimization", {})
    found = {name: zero.get(name) or {} for name in NVME_SECTIONS}
    return {name: section for name, section in found.items() if section.get("device") == "nvme" and section.get("nvme_path")}


def placed(run: CompiledRun, job: str) -> CompiledRun:
    """The run of the job whose folder is `job` (absolute): its swap files lie in a folder of its own below each nvme_path.

    DeepSpeed names them by rank alone, and clears what it finds (partitioned_param_swapper.py:88): two jobs on one path destroy each
    other's. The name follows from the job's folder, which one run at a time uses.
    """
    if not nvme_sections(run.deepspeed):
        return run
    deepspeed, provenance = copy.deepcopy(dict(run.deepspeed)), dict(run.provenance)
    name = NVME_PREFIX + hashlib.sha256(job.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    for section in nvme_sections(run.deepspeed):
        path = f"zero_optimization.{section}.nvme_path"
        values = deepspeed["zero_optimization"][section]
        values["nvme_path"] = f"{values['nvme_path'].rstrip('/')}/{name}"
        entry = provenance[path]
        why = f"{entry.value}, and in it a folder of this job alone ({' '.join(filter(None, (entry.source, entry.reason)))})"
        provenance[path] = Entry(path, values["nvme_path"], "emit", why)
    return replace(run, deepspeed=deepspeed, provenance=provenance)
