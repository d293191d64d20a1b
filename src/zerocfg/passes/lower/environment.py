"""Plan + `env` + the user's own environment -> what the run sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zerocfg.diagnostics import Diagnostic, Severity
from zerocfg.hidden import HIDDEN, is_secret
from zerocfg.lowered import Leaf
from zerocfg.plan import Plan
from zerocfg.provenance import Reason, asked, rule

_PASS = "lower.resources"

# torchrun sets these for each rank (local_elastic_agent.py:415-436), the launcher the last two for each job
RESERVED = frozenset(
    {
        *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
        *("GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_NAME", "ROLE_WORLD_SIZE"),
        *("CUDA_VISIBLE_DEVICES", "ZEROCFG_RUN_DIR"),
    }
)
# PET_*: torchrun reads its own options from these, and PET_STANDALONE=1 would win over the rendezvous that was compiled
RESERVED_PREFIXES = ("TORCHELASTIC_", "PET_")


def lower_environment(
    plan: Plan, reasons: Mapping[str, Reason], env: Mapping[str, Any], environ: Mapping[str, str]
) -> tuple[list[Leaf], list[Diagnostic]]:
    """Order of precedence: `env` of the config, then what the user has exported, then what the plan decided.

    Codes: ZC810 a plan's value gives way to the exported one (note), ZC811 a name that torchrun or the launcher sets, ZC812 no
    name or value for an environment.
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
        if name in RESERVED or name.startswith(RESERVED_PREFIXES):
            found.append(Diagnostic(code="ZC811", path=path, message=f"{path} is set by torchrun or the launcher", hint=_instead(name)))
        elif isinstance(value, bool):
            # true, True, on and yes have all become the same by now; programs tell them and 1 apart
            either = "1 or '\"true\"'" if value else "0 or '\"false\"'"
            message = f"{path}={str(value).lower()} is not a text, and programs differ in what they take for {str(value).lower()}"
            found.append(Diagnostic(code="ZC812", path=path, message=message, hint=f"{path}={either}"))
        elif not _is_name(name) or not isinstance(value, (str, int, float)) or "\0" in str(value):
            message = f"{path}={HIDDEN if is_secret(name) else repr(value)} is not a name and a text for an environment"
            hint = f"{path}='\"...\"', or ~{path}" if _is_name(name) else "+env.NAME=TEXT, the name of letters, digits and _"
            found.append(Diagnostic(code="ZC812", path=path, message=message, hint=hint))
        else:
            chosen[name] = (str(value), asked(path))
    found += _unreadable_arch_list(
        plan, chosen["TORCH_CUDA_ARCH_LIST"][0] if "TORCH_CUDA_ARCH_LIST" in chosen else environ.get("TORCH_CUDA_ARCH_LIST", "")
    )
    return [Leaf(name, value, reason) for name, (value, reason) in chosen.items()], found


def _unreadable_arch_list(plan: Plan, text: str) -> list[Diagnostic]:
    """DeepSpeed 0.19.8 reads each entry as MAJOR.MINOR (op_builder/builder.py:710) and fails on torch's own 9.0a."""
    entries = text.replace(" ", ";").split(";")
    bad = [e for e in entries if e and not all(part.isdigit() for part in e.split("+")[0].split("."))]
    if not bad or not plan.hardware.is_cuda:
        return []
    clear = ";".join(dict.fromkeys(e.rstrip("af") if e in bad else e for e in entries if e))
    return [
        Diagnostic(
            code="ZC813",
            path="env.TORCH_CUDA_ARCH_LIST",
            message=f"TORCH_CUDA_ARCH_LIST={text}: DeepSpeed cannot read {', '.join(bad)} and fails when it compiles its first op",
            hint=f"+env.TORCH_CUDA_ARCH_LIST='{clear}'",
        )
    ]


def _is_name(name: str) -> bool:
    return name.isascii() and name.replace("_", "a").isalnum() and not name[0].isdigit()


def _instead(name: str) -> str:
    return "export it before the launch: the launcher takes free GPUs out of it" if name == "CUDA_VISIBLE_DEVICES" else f"~env.{name}"


def lower_resources(plan: Plan, reasons: Mapping[str, Reason]) -> list[Leaf]:
    """The fields of `artifact.Resources`."""
    hardware, topology = plan.hardware, plan.topology
    on_gpus, unused = hardware.is_cuda, rule(_PASS, "none on cpu", "hardware.accelerator")
    ranks = reasons["topology.nproc_per_node"]
    cores = rule(_PASS, f"cores a rank x ranks = {topology.cpus_per_rank} x {topology.nproc_per_node}", "hardware.cpus_per_node")
    memory = reasons["hardware.memory_bytes"]
    return [
        Leaf("num_nodes", topology.num_nodes, reasons["topology.num_nodes"]),
        Leaf("gpus_per_node", topology.nproc_per_node if on_gpus else 0, ranks if on_gpus else unused),
        Leaf("gpu", hardware.gpu, reasons["hardware.gpu"]),
        Leaf("ranks_per_node", topology.nproc_per_node, ranks),
        Leaf("cpus_per_node", topology.cpus_per_rank * topology.nproc_per_node, cores),
        Leaf("memory_bytes_per_gpu", hardware.memory_bytes if on_gpus else 0, memory if on_gpus else unused),
        Leaf("host_memory_bytes", hardware.host_memory_bytes, reasons["hardware.host_memory_bytes"]),
    ]
