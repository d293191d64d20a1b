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
_NOT_FACTS = ("detect", "cpus_per_gpu")
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
# Where nothing is known of a field that must be known: passes go on with this, and nothing is emitted.
_STAND_IN: dict[str, object] = {"accelerator": "cpu", "gpus_per_node": 1, "memory_bytes": 0}
# On cpu without a word on ranks: two, the least that exercises every collective.
_CPU_RANKS = 2
# Far beyond any machine; keeps world sizes within arithmetic that is done in no time.
_MOST = {"num_nodes": 2**15, "gpus_per_node": 2**8}


def resolve_hardware(config: HardwareConfig, detected: Detected | None) -> Resolved[HardwareFacts]:
    """Codes: ZC120 a field that the group must give is missing, ZC121 a compute capability that is not MAJOR.MINOR, ZC122 a count of
    machines or ranks, ZC123 another value, out of range."""
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
        elif name == "cpus_per_node" and (share := _share_of_cores(config, values["gpus_per_node"], found, detected)):
            values[name], reasons[name] = share
        elif name in found:
            values[name], reasons[name] = found[name]
        elif name in _UNKNOWN:
            values[name], reasons[name] = _UNKNOWN[name], rule(_PASS, "not given, not detected")
        else:
            problems.append(_needed(path, config.detect, detected))
            values[name], reasons[name] = _STAND_IN[name], rule(_PASS, "missing")
    if values["accelerator"] == "cuda" and config.compute_capability is None and "compute_capability" not in found:
        # every rule about bf16, TF32 and fp16 hangs on it: unknown must not read as "has none of it"
        problems.append(_needed("hardware.compute_capability", config.detect, detected))
    for name, most in _MOST.items():
        count = values[name]
        assert isinstance(count, int)
        if not 1 <= count <= most:
            problems.append(_out_of_range("ZC122", name, count, f"1 to {most}", "1"))
            values[name] = 1
    problems += _ranges(values)
    return Resolved(HardwareFacts(**values), reasons, problems)  # type: ignore[arg-type]


def _share_of_cores(
    config: HardwareConfig, gpus: object, found: dict[str, tuple[object, Reason]], detected: Detected | None
) -> tuple[int, Reason] | None:
    """What a run on some GPUs of a machine takes of its cores; the rest is for the jobs on the other GPUs."""
    assert isinstance(gpus, int)
    if config.cpus_per_gpu is not None:
        each = int(config.cpus_per_gpu)
        return each * gpus, rule(_PASS, f"cpus_per_gpu x gpus_per_node = {each} x {gpus}", "hardware.cpus_per_gpu")
    there, cores = (found.get(name, (0, None))[0] for name in ("gpus_per_node", "cpus_per_node"))
    assert isinstance(there, int)
    assert isinstance(cores, int)
    if not 0 < gpus < there or detected is None:
        return None
    return max(1, cores * gpus // there), rule("probe", f"{gpus} of the {there} GPUs of {detected.place}: that share of its {cores} cores")


def _ranges(values: dict[str, object]) -> list[Diagnostic]:
    problems = []
    for name, value in values.items():
        least = 1 if name == "numa_nodes" else 0
        if name in (*_MOST, "memory_target") or isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        if value < least:
            problems.append(_out_of_range("ZC123", name, value, f"{least} or more", str(least)))
    target = values["memory_target"]
    assert isinstance(target, float)
    if not 0 < target <= 1:
        problems.append(_out_of_range("ZC123", "memory_target", target, "a share, above 0 and at most 1", "0.8"))
    return problems


def _out_of_range(code: str, name: str, value: object, wanted: str, hint: str) -> Diagnostic:
    path = f"hardware.{name}"
    return Diagnostic(code=code, path=path, message=f"{path}={value} is not {wanted}", hint=f"{path}={hint}")


def _plain(name: str, value: object, problems: list[Diagnostic]) -> object:
    if name == "compute_capability":
        major, _, minor = str(value).partition(".")
        if _is_number(major) and _is_number(minor or "0"):
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


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 4


def _needed(path: str, detect: bool, detected: Detected | None) -> Diagnostic:
    why = "the hardware option does not say it and detect is off"
    if detect:
        why = (detected.reason if detected else "") or f"{detected.place if detected else 'this machine'} could not be read"
    return Diagnostic(code="ZC120", path=path, message=f"{path} is not known: {why}", hint=f"{path}=VALUE, or hardware=auto")


def _found(config: HardwareConfig, detected: Detected) -> dict[str, tuple[object, Reason]]:
    """Facts of this machine, by HardwareFacts field, for the accelerator that the config (or the machine) decides."""
    wanted = config.accelerator.value if config.accelerator is not None else ""
    on_cpu = wanted == "cpu"
    read = f"read off {detected.place}"
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
        rates = {**asdict(sheet), "link_gbps": sheet.link_gbps(detected.link)} if sheet else {}
        from_sheet = {k: (v, rule("hardware data sheet", known)) for k, v in rates.items() if k in _UNKNOWN}
        return {**from_sheet, **{k: (v, rule("probe", read)) for k, v in machine.items()}}
    if wanted == "cuda":
        # No GPU to read: only what every machine has. What is still missing is reported with the probe's reason.
        return {k: (v, rule("probe", read)) for k, v in machine.items()}
    ranks = max(1, int(config.gpus_per_node or _CPU_RANKS))
    machine |= {"accelerator": "cpu", "gpus_per_node": ranks, "memory_bytes": detected.host_memory_bytes // ranks}
    why = f"no GPU here: {detected.reason}" if detected.reason and not on_cpu else read
    return {k: (v, rule("probe", why if k in ("accelerator", "gpus_per_node") else read)) for k, v in machine.items()}
