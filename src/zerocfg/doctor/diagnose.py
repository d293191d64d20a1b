"""All checks in order, those that wait for programs and disks side by side."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from zerocfg.doctor.checks import disks, gpus, memory, network, ops, services, software, variables
from zerocfg.doctor.finding import Finding, warn
from zerocfg.doctor.machine import Machine
from zerocfg.doctor.needs import Needs


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    function: Callable[[Machine, Needs], Iterator[Finding]]
    of_gpus: bool = False
    """Left out for a run on the CPU."""
    of_software: bool = False
    """Left out when the ranks run in a container: it has its own."""
    of_node: bool = False
    """Left out where a run is submitted to SLURM from here: the nodes are other machines."""


CHECKS: tuple[Check, ...] = (
    Check("python", software.python, of_software=True),
    Check("torch", software.torch, of_software=True),
    Check("deepspeed", software.deepspeed, of_software=True),
    Check("driver", gpus.driver, of_gpus=True, of_node=True),
    Check("gpus", gpus.gpus, of_gpus=True, of_node=True),
    Check("gpu health", gpus.health, of_gpus=True, of_node=True),
    Check("gpu links", gpus.links, of_gpus=True, of_node=True),
    Check("libraries", software.libraries, of_gpus=True, of_software=True),
    Check("ops", ops.ops, of_software=True, of_node=True),
    Check("op cache", ops.build_cache, of_software=True, of_node=True),
    Check("op targets", ops.architectures, of_gpus=True, of_node=True),
    Check("host", memory.host, of_node=True),
    Check("numa", memory.numa, of_node=True),
    Check("/dev/shm", memory.shared_memory, of_node=True),
    Check("limits", memory.limits, of_node=True),
    Check("interfaces", network.interfaces, of_node=True),
    Check("host name", network.host_name, of_node=True),
    Check("infiniband", network.infiniband, of_node=True),
    Check("clock", network.clock, of_node=True),
    Check("output", disks.output),
    Check("nvme", disks.nvme, of_node=True),
    Check("slurm", services.slurm),
    Check("container", services.container),
    Check("environment", variables.variables),
)


def diagnose(machine: Machine, needs: Needs, checks: Sequence[Check] = CHECKS) -> list[Finding]:
    """What each check that concerns the run finds, in order. Raises nothing."""
    elsewhere = needs.slurm and not needs.start and "SLURM_JOB_ID" not in machine.environ
    wanted = [
        check
        for check in checks
        if (needs.gpus_matter or not check.of_gpus) and (needs.inside or not check.of_software) and not (elsewhere and check.of_node)
    ]
    machine.detected(), machine.health()  # NVML, once, before the threads
    with ThreadPoolExecutor(max_workers=8) as pool:
        return [finding for found in pool.map(lambda check: _made(check, machine, needs), wanted) for finding in found]


def _made(check: Check, machine: Machine, needs: Needs) -> list[Finding]:
    try:
        return named(check.name, check.function(machine, needs))
    except Exception as problem:  # a broken machine must not break the report on it
        text = f"this check failed: {type(problem).__name__}: {problem}"
        return named(check.name, [warn("ZC890", text, "report it, please; the other lines stand")])


def named(name: str, findings: Iterable[Finding]) -> list[Finding]:
    return [dataclasses.replace(finding, check=name) for finding in findings]
