"""Plan + `env` + the user's own environment -> what the run sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zerocfg.artifact import Resources
from zerocfg.diagnostics import Diagnostic, Severity
from zerocfg.lowered import Leaf
from zerocfg.plan import Plan
from zerocfg.provenance import Reason, asked, rule

# torchrun or the launcher sets these for each rank
RESERVED = frozenset(
    {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT", "ZEROCFG_RUN_DIR"}
)


def lower_environment(
    plan: Plan, reasons: Mapping[str, Reason], env: Mapping[str, Any], environ: Mapping[str, str]
) -> tuple[list[Leaf], list[Diagnostic]]:
    """Order of precedence: `env` of the config, then what the user has exported, then what the plan decided.

    Codes: ZC810 a plan's value gives way to the exported one (note), ZC811 a name that torchrun sets, ZC812 no name or value
    for an environment.
    """
    chosen: dict[str, tuple[str, Reason]] = {}
    found: list[Diagnostic] = []
    for name, value in plan.communication.environment.items():
        theirs = environ.get(name)
        if theirs is not None and theirs != value and name not in env:
            found.append(
                Diagnostic(
                    code="ZC810",
                    severity=Severity.NOTE,
                    path=f"env.{name}",
                    message=f"{name}={theirs} of your environment is kept; the plan would set {value}",
                    hint=f"unset {name}, or +env.{name}={value}",
                )
            )
            chosen[name] = (theirs, rule("user environment", "kept as exported"))
        else:
            chosen[name] = (value, reasons[f"communication.environment.{name}"])
    for name, value in env.items():
        path = f"env.{name}"
        if name in RESERVED:
            found.append(Diagnostic(code="ZC811", path=path, message=f"{path} is set by torchrun for each rank", hint=f"~env.{name}"))
        elif not _is_name(name) or value is None or isinstance(value, (dict, list)) or "\0" in str(value):
            found.append(
                Diagnostic(
                    code="ZC812", path=path, message=f"{path}={value!r} is not a name and a text for an environment", hint="env.NAME=text"
                )
            )
        else:
            chosen[name] = (_text(value), asked(path))
    return [Leaf(name, value, reason) for name, (value, reason) in chosen.items()], found


def _is_name(name: object) -> bool:
    return isinstance(name, str) and name.isascii() and name.replace("_", "a").isalnum() and not name[0].isdigit()


def _text(value: object) -> str:
    return {True: "1", False: "0"}[value] if isinstance(value, bool) else str(value)


def lower_resources(plan: Plan) -> Resources:
    hardware = plan.hardware
    return Resources(
        num_nodes=plan.topology.num_nodes,
        gpus_per_node=plan.topology.nproc_per_node if hardware.is_cuda else 0,
        gpu=hardware.gpu,
        ranks_per_node=plan.topology.nproc_per_node,
        cpus_per_node=plan.topology.cpus_per_rank * plan.topology.nproc_per_node,
        memory_bytes_per_gpu=hardware.memory_bytes if hardware.is_cuda else 0,
        host_memory_bytes=hardware.host_memory_bytes,
    )
