"""hardware.*: what is written in the group, filled up by what a probe of this machine found when `detect` is on."""

from __future__ import annotations

from dataclasses import asdict

from zerocfg.diagnostics import Diagnostic
from zerocfg.facts import Detected, HardwareFacts
from zerocfg.gpus import gpu_facts
from zerocfg.provenance import Reason, asked, rule
from zerocfg.resolved import Resolved
from zerocfg.schema.hardware import HardwareConfig
from zerocfg.schema.load import field_names

_PASS = "resolve.hardware"
_NOT_FACTS = ("detect",)
# What a field means when neither the group nor the probe knows it: none of it.
_UNKNOWN: dict[str, object] = {
    "gpu": "",
    "compute_capability": (0, 0),
    "fp32_tflops": 0.0,
    "tf32_tflops": 0.0,
    "fp16_tflops": 0.0,
    "bf16_tflops": 0.0,
    "memory_bandwidth_gbps": 0.0,
    "link": "none",
    "link_gbps": 0.0,
    "p2p": True,
    "pcie_gbps": 0.0,
    "network": "none",
    "network_gbps": 0.0,
    "network_interface": "",
    "cpus_per_node": 0,
    "host_memory_bytes": 0,
    "numa_nodes": 1,
}
# On cpu without a word on ranks: two, the least that exercises every collective.
_CPU_RANKS = 2


def resolve_hardware(config: HardwareConfig, detected: Detected | None) -> Resolved[HardwareFacts]:
    """Codes: ZC120 a field that the group must give is missing, ZC121 a compute capability that is not MAJOR.MINOR."""
    found = _found(config, detected) if config.detect and detected is not None else {}
    values: dict[str, object] = {}
    reasons: dict[str, Reason] = {}
    problems: list[Diagnostic] = []
    for name in field_names(HardwareConfig):
        if name in _NOT_FACTS:
            continue
        path = f"hardware.{name}"
        given = getattr(config, name)
        if given is not None:
            values[name], reasons[name] = _plain(name, given, problems), asked(path)
        elif name in found:
            values[name], reasons[name] = found[name]
        elif name in _UNKNOWN:
            values[name], reasons[name] = _UNKNOWN[name], rule(_PASS, "not given, not detected")
        else:
            problems.append(_needed(path, config.detect))
            values[name], reasons[name] = {"accelerator": "cpu", "gpus_per_node": 1, "memory_bytes": 0}[name], rule(_PASS, "missing")
    for name in ("num_nodes", "gpus_per_node"):
        count = values[name]
        assert isinstance(count, int)
        if count < 1:
            problems.append(
                Diagnostic(
                    code="ZC122", path=f"hardware.{name}", message=f"hardware.{name}={count} must be at least 1", hint=f"hardware.{name}=1"
                )
            )
            values[name] = 1
    return Resolved(HardwareFacts(**values), reasons, problems)  # type: ignore[arg-type]


def _plain(name: str, value: object, problems: list[Diagnostic]) -> object:
    if name == "compute_capability":
        major, _, minor = str(value).partition(".")
        if major.isdigit() and (minor or "0").isdigit():
            return int(major), int(minor or 0)
        problems.append(
            Diagnostic(
                code="ZC121",
                path="hardware.compute_capability",
                message=f"hardware.compute_capability={value!r} is not MAJOR.MINOR",
                hint="hardware.compute_capability='8.0'",
            )
        )
        return 0, 0
    return getattr(value, "value", value)


def _needed(path: str, detect: bool) -> Diagnostic:
    why = "this machine could not be read" if detect else "the hardware option does not say it and detect is off"
    return Diagnostic(code="ZC120", path=path, message=f"{path} is not known: {why}", hint=f"{path}=VALUE, or hardware=auto")


def _found(config: HardwareConfig, detected: Detected) -> dict[str, tuple[object, Reason]]:
    """Facts of this machine, by HardwareFacts field, for the accelerator that the config (or the machine) decides."""
    on_cpu = config.accelerator is not None and config.accelerator.value == "cpu"
    machine: dict[str, object] = {
        "cpus_per_node": detected.cpus,
        "host_memory_bytes": detected.host_memory_bytes,
        "numa_nodes": max(1, detected.numa_nodes),
    }
    if detected.gpus and not on_cpu:
        gpu = detected.gpus[0]
        sheet = gpu_facts(gpu.name)
        machine |= {
            "accelerator": "cuda",
            "gpu": gpu.name,
            "gpus_per_node": len(detected.gpus),
            "memory_bytes": min(g.memory_bytes for g in detected.gpus),
            "compute_capability": min(g.compute_capability for g in detected.gpus),
            "link": detected.link,
            "p2p": detected.p2p,
        }
        known = f"data sheet of {gpu.name}"
        from_sheet = {k: (v, rule("hardware data sheet", known)) for k, v in asdict(sheet).items() if k in _UNKNOWN} if sheet else {}
        return {**from_sheet, **{k: (v, rule("probe", "read off this machine")) for k, v in machine.items()}}
    ranks = int(config.gpus_per_node or _CPU_RANKS)
    machine |= {"accelerator": "cpu", "gpus_per_node": ranks, "memory_bytes": detected.host_memory_bytes // ranks}
    why = f"no GPU here: {detected.reason}" if detected.reason and not on_cpu else "read off this machine"
    return {k: (v, rule("probe", why if k in ("accelerator", "gpus_per_node") else "read off this machine")) for k, v in machine.items()}
