"""The driver and the GPUs."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterable, Iterator

from zerocfg.doctor.checks.software import built_for
from zerocfg.doctor.compat import dotted, driver_runs, has_code_for, needed_driver, torch_for, version, xid_meaning
from zerocfg.doctor.finding import Finding, bad, fail, ok, warn
from zerocfg.doctor.machine import Machine
from zerocfg.doctor.needs import Needs
from zerocfg.gpus import gpu_facts
from zerocfg.probe.health import GpuState
from zerocfg.units import counted

GIB = 2**30
_BUSY_SHARE = 0.05


def driver(machine: Machine, needs: Needs) -> Iterator[Finding]:
    """ZC822."""
    health = machine.health()
    if not health.driver:
        mismatch = "different versions" in health.reason
        fix = "reboot, or reload the nvidia modules" if mismatch else "install NVIDIA's driver, or hardware=cpu"
        if "nvidia-ml-py" in health.reason:
            fix = "pip install nvidia-ml-py"
        elif machine.exists("/.dockerenv") and not mismatch:
            fix = "start the container with --gpus all (NVIDIA container toolkit), or hardware=cpu"
        yield bad(needs.cuda, "ZC822", health.reason or "NVML does not answer", fix)
        return
    kind, cuda = built_for(machine) if needs.inside else ("", ())
    text = f"{health.driver}, CUDA {dotted(health.cuda)}"
    if kind == "cuda" and not driver_runs(version(health.driver), health.cuda, cuda):
        older = torch_for(version(health.driver))
        yield bad(
            needs.cuda or needs.plan is None,
            "ZC822",
            f"driver {health.driver} is too old for torch's CUDA {dotted(cuda)}, which needs {needed_driver(cuda)} or later",
            f"a newer driver, or pip install '{older}'" if older else "a newer driver",
        )
    else:
        yield ok(text)


def gpus(machine: Machine, needs: Needs) -> Iterator[Finding]:
    """ZC823 how many and which, ZC824 whether torch has code for them."""
    found = machine.detected()
    names = ", ".join(f"{n} x {name}" for name, n in Counter(gpu.name for gpu in found.gpus).items()) or "none"
    if len(found.gpus) < needs.gpus:
        reason = f": {found.reason}" if found.reason else ""
        yield fail(
            "ZC823", f"the run needs {counted(needs.gpus, 'GPU')}, this machine has {names}{reason}", "hardware=auto, or hardware=cpu"
        )
    elif not found.gpus:
        yield warn("ZC823", f"no GPU: {found.reason or 'none is listed'}", "nothing, for hardware=cpu")
    else:
        capabilities = ", ".join(sorted({f"{major}.{minor}" for major, minor in (gpu.compute_capability for gpu in found.gpus)}))
        memory = min(gpu.memory_bytes for gpu in found.gpus) / GIB
        yield ok(f"{names}, compute capability {capabilities}, {memory:.0f} GiB each")
        if found.reason:
            yield warn("ZC823", found.reason, "unset CUDA_VISIBLE_DEVICES, or name GPUs that exist")
    if len({gpu.name for gpu in found.gpus}) > 1:
        yield warn("ZC823", f"different GPUs: the slowest sets the pace ({names})", "CUDA_VISIBLE_DEVICES with equal ones")
    kind, cuda = built_for(machine)
    for capability in sorted({gpu.compute_capability for gpu in found.gpus}) if kind == "cuda" and needs.inside else ():
        if not has_code_for(capability, cuda):
            fix = (
                "pip install 'torch==2.10.*', the last whose PyPI build is for CUDA 12"
                if capability < (7, 5)
                else "pip install --upgrade torch"
            )
            text = f"torch's CUDA {dotted(cuda)} has no code for compute capability {capability[0]}.{capability[1]}"
            yield bad(needs.cuda or needs.plan is None, "ZC824", text, fix)


def health(machine: Machine, needs: Needs) -> Iterator[Finding]:
    """ZC825 errors, ZC826 settings."""
    states = machine.health().gpus
    before = 0
    for finding in _together((state.index, finding) for state in states for finding in (*_errors(state, needs), *_settings(state, needs))):
        before += 1
        yield finding
    if any(state.persistence is False for state in states):
        yield warn("ZC826", "persistence mode is off: the driver reloads for seconds at each start", "sudo nvidia-smi -pm 1")
        before += 1
    for finding in _xids(machine, needs):
        before += 1
        yield finding
    if states and not before:
        yield ok("no ECC errors, no throttling, no other processes")


def _together(found: Iterable[tuple[int, Finding]]) -> Iterator[Finding]:
    """What several GPUs have in common is said once: GPUs 0, 1, and -i 0,1 in the fix."""
    shared: dict[Finding, list[int]] = {}
    for index, finding in found:
        text, fix = finding.text.removeprefix(f"GPU {index}"), finding.fix.replace(f"-i {index}", "-i {}")
        shared.setdefault(dataclasses.replace(finding, text=text, fix=fix), []).append(index)
    for finding, indices in shared.items():
        title = f"GPU{'s' if len(indices) > 1 else ''} {', '.join(map(str, indices))}"
        fix = finding.fix.replace("-i {}", f"-i {','.join(map(str, indices))}")
        yield dataclasses.replace(finding, text=f"{title}{finding.text}", fix=fix)


def _errors(state: GpuState, needs: Needs) -> Iterator[Finding]:
    name = f"GPU {state.index}"
    reset = f"sudo nvidia-smi --gpu-reset -i {state.index}, or reboot; again: replace it"
    if state.lost:
        yield bad(needs.cuda, "ZC825", f"{name}: no answer: fallen off the bus, or not permitted here", "reboot; again: replace it")
    if state.ecc_uncorrected:
        yield bad(needs.cuda, "ZC825", f"{name}: {state.ecc_uncorrected} uncorrectable memory errors", reset)
    if state.remap_failed:
        yield bad(needs.cuda, "ZC825", f"{name}: a broken memory row could not be replaced", "replace the GPU")
    elif state.remap_pending:
        yield warn("ZC825", f"{name}: a broken memory row is replaced at the next reset", reset)


def _settings(state: GpuState, needs: Needs) -> Iterator[Finding]:
    name = f"GPU {state.index}"
    if state.mig:
        # one process sees one slice, and NCCL links no two slices
        yield bad(
            needs.gpus > 1,
            "ZC826",
            f"{name}: in MIG mode: a process uses one slice, and ranks on slices cannot use NCCL together",
            f"sudo nvidia-smi -i {state.index} -mig 0, or hardware.gpus_per_node=1",
        )
    if state.compute_prohibited:
        yield bad(needs.cuda, "ZC826", f"{name}: no compute processes are allowed", f"sudo nvidia-smi -i {state.index} -c DEFAULT")
    if state.throttled:
        yield warn("ZC826", f"{name}: slowed down: {', '.join(state.throttled)}", "cooling and power supply; nvidia-smi -q -d PERFORMANCE")
    if state.memory_total and state.memory_used > _BUSY_SHARE * state.memory_total:
        used, total = state.memory_used / GIB, state.memory_total / GIB
        yield warn("ZC826", f"{name}: {used:.1f} of {total:.0f} GiB in use", "nvidia-smi shows by whom")


def _xids(machine: Machine, needs: Needs) -> Iterator[Finding]:
    """Errors that the driver has logged since boot; often only root may read them."""
    if not machine.health().gpus:
        return
    seen: Counter[int] = Counter(int(number) for number in re.findall(r"NVRM: Xid \([^)]*\): (\d+)", machine.run("dmesg").stdout))
    for number, times in sorted(seen.items()):
        meaning, hardware = xid_meaning(number)
        if hardware:
            fix = "nvidia-smi -q -d ECC,ROW_REMAPPER; drain the node where it comes again"
            yield warn("ZC825", f"the kernel log has Xid {number} {counted(times, 'time')}: {meaning}", fix)


def links(machine: Machine, needs: Needs) -> Iterator[Finding]:
    """ZC827."""
    found, health = machine.detected(), machine.health()
    if len(found.gpus) < 2:
        return
    stuck = sorted({state.fabric for state in health.gpus if state.fabric and state.fabric != "completed"})
    if stuck:
        fix = "sudo systemctl start nvidia-fabricmanager, of the driver's version"
        yield bad(needs.gpus > 1, "ZC827", f"the NVSwitch fabric is {stuck[0]}: CUDA will not start", fix)
    down = [state.index for state in health.gpus if state.nvlinks and state.nvlinks_down]
    if down:
        yield warn("ZC827", f"GPUs {', '.join(map(str, down))} have NVLinks that are down", "nvidia-smi nvlink --status; reset or replace")
    sheet = gpu_facts(found.gpus[0].name)
    if sheet is not None and sheet.nvlink_gbps and "SXM" in sheet.gpu and found.link == "pcie":
        yield warn("ZC827", f"{sheet.gpu} GPUs, but NVLink is not in use between them", "nvidia-smi nvlink --status; the fabric manager")
    if found.link == "pcie" and not found.p2p:
        yield warn(
            "ZC827", "no peer-to-peer access between the GPUs: NCCL goes over host memory", "nothing: zerocfg sets NCCL_P2P_DISABLE=1"
        )
    elif found.link == "pcie" and machine.names("/sys/class/iommu"):
        fix = "iommu=pt or off on the kernel's command line, ACS off in the BIOS; else +env.NCCL_P2P_DISABLE=1"
        yield warn("ZC827", "GPUs on PCIe with an IOMMU: peer-to-peer copies may hang or be slow", fix)
    slow = [s.index for s in health.gpus if s.pcie_width and s.pcie_width_max and s.pcie_width < s.pcie_width_max]
    if slow:
        yield warn(
            "ZC827", f"GPUs {', '.join(map(str, slow))} use fewer PCIe lanes than they have", "the slot, the riser, bifurcation in the BIOS"
        )
    if not (stuck or down):
        yield ok(f"GPUs linked by {found.link}" + (", peer-to-peer" if found.p2p else ""))
