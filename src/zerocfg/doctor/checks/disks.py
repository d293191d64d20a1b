"""Where the run writes."""

from __future__ import annotations

from collections.abc import Iterator

from zerocfg.doctor.finding import Finding, bad, fail, ok, warn
from zerocfg.doctor.machine import Machine, Space
from zerocfg.doctor.needs import Needs
from zerocfg.plan import Plan
from zerocfg.units import human_bytes

GIB, MIB = 2**30, 2**20
_TRIAL, _LONG_TRIAL = 16 * MIB, 256 * MIB
_SLOW, _SLOW_NVME = 50e6, 500e6


def output(machine: Machine, needs: Needs) -> Iterator[Finding]:
    """ZC860."""
    if not machine.writable(needs.output):
        yield bad(needs.plan is not None, "ZC860", f"{needs.output} cannot be written", "hydra.sweep.dir=FOLDER that you may write")
        return
    space = machine.space(needs.output)
    speed = machine.write_speed(needs.output, _LONG_TRIAL if needs.start else _TRIAL)
    if not speed:
        yield bad(needs.plan is not None, "ZC860", f"{needs.output}: a file could not be written there", "df -h, df -i, quota")
        return
    text = f"{needs.output}: {_described(space)}, {speed / 1e6:.0f} MB/s"
    needed = checkpoint_bytes(needs.plan) if needs.plan is not None and needs.plan.checkpoint.enabled else 0
    if space is not None and needed and space.free < 2 * needed:
        fix = "checkpoint.directory=FOLDER with more space, or checkpoint.keep_last=1"
        yield bad(space.free < needed, "ZC860", f"{text}; one checkpoint takes {human_bytes(needed)}", fix)
    elif space is not None and space.free < GIB:
        yield warn("ZC860", text, "hydra.sweep.dir=FOLDER with more space")
    elif speed < _SLOW:
        yield warn("ZC860", f"{text}: checkpoints and logs will be slow", "hydra.sweep.dir=FOLDER on a faster disk")
    else:
        yield ok(text)


def nvme(machine: Machine, needs: Needs) -> Iterator[Finding]:
    """ZC861."""
    plan = needs.plan
    if plan is None or not needs.nvme:
        return
    path = plan.offload.nvme_path
    fix = "offload.nvme_path=FOLDER on a local NVMe disk"
    if not machine.exists(path) or not machine.writable(path):
        what = "cannot be written" if machine.exists(path) else "does not exist"
        yield fail("ZC861", f"offload.nvme_path={path} {what}", f"mkdir -p {path}, or {fix}")
        return
    space = machine.space(path)
    if space is not None and space.kind in ("tmpfs", "ramfs"):
        yield fail("ZC861", f"offload.nvme_path={path} is on {space.kind}: that is main memory, and has no direct I/O", fix)
        return
    needed = nvme_bytes(plan)
    if space is not None and needed and space.free < needed:
        yield fail("ZC861", f"offload.nvme_path={path} has {human_bytes(space.free)} free, the run needs {human_bytes(needed)}", fix)
        return
    speed = machine.write_speed(path, _LONG_TRIAL if needs.start else _TRIAL, direct=True)
    text = f"{path}: {_described(space)}, {speed / 1e6:.0f} MB/s past the page cache"
    if not speed:
        yield fail("ZC861", f"offload.nvme_path={path} has no direct I/O (O_DIRECT), which DeepSpeed's aio uses", fix)
    elif space is not None and space.kind.startswith(("nfs", "lustre", "gpfs", "overlay", "fuse")):
        yield warn("ZC861", f"{text}: {space.kind} is not a local disk", fix)
    elif speed < _SLOW_NVME:
        yield warn("ZC861", f"{text}: each step waits for it", fix)
    else:
        yield ok(text)


def _described(space: Space | None) -> str:
    return "size unknown" if space is None else f"{human_bytes(space.free)} free" + (f" on {space.kind}" if space.kind else "")


def checkpoint_bytes(plan: Plan) -> int:
    """One whole checkpoint: 16-bit weights, and the optimizer's fp32 master, momentum and variance. 0: the model is not described."""
    return plan.model.num_parameters * (2 + 12) if plan.model is not None else 0


def nvme_bytes(plan: Plan) -> int:
    """On one node: 12 bytes a parameter of optimizer states, 2 of weights, over all nodes. 0: the model is not described."""
    if plan.model is None:
        return 0
    each = (12 if plan.offload.optimizer == "nvme" else 0) + (2 if plan.offload.param == "nvme" else 0)
    return plan.model.num_parameters * each // plan.topology.num_nodes
