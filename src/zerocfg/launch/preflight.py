"""Checks before anything is started. Pure: the machine and the environment are arguments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from zerocfg.diagnostics import Diagnostic, Severity
from zerocfg.facts import Detected
from zerocfg.gpus import gpu_facts
from zerocfg.hidden import hide_override
from zerocfg.plan import Plan
from zerocfg.schema.checkpoint import CheckpointConfig
from zerocfg.units import counted

_TAGS = ("%j", "%t", "%A", "%a")


def check_nesting(environ: Mapping[str, str]) -> Iterator[Diagnostic]:
    """ZC704: each rank of a torchrun would start ranks of its own."""
    world, rank = environ.get("WORLD_SIZE", ""), environ.get("RANK", "")
    several = world.isdigit() and int(world) > 1
    if "TORCHELASTIC_RUN_ID" in environ or several or (rank.isdigit() and int(rank) > 0):
        found = ", ".join(f"{n}={environ[n]}" for n in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID") if n in environ)
        yield Diagnostic(
            code="ZC704",
            message="this script starts torchrun itself, but it was started as a rank already",
            detail=(f"in the environment: {found}", "each rank would compose its own config and start its own job"),
            hint="python SCRIPT overrides, without torchrun, deepspeed or mpirun in front; or unset these names",
        )


def check_machine(plan: Plan, detected: Detected, environ: Mapping[str, str]) -> Iterator[Diagnostic]:
    """ZC701 too few GPUs, ZC702 several nodes, ZC703 other GPUs than named (warning)."""
    hardware = plan.hardware
    if hardware.num_nodes > 1:
        yield Diagnostic(
            code="ZC702",
            path="hardware.num_nodes",
            message=f"hardware.num_nodes={hardware.num_nodes}, but hydra/launcher=zerocfg_local starts ranks on this machine only",
            detail=(f"the run is for {hardware.num_nodes} x {hardware.gpus_per_node} ranks",),
            hint="hardware.num_nodes=1; or a SLURM launcher; or `zerocfg compile --out DIR` and DIR/launch.sh on each machine",
        )
    if not hardware.is_cuda:
        return
    gpus = detected.gpus
    mask = environ.get("CUDA_VISIBLE_DEVICES")
    if len(gpus) < hardware.gpus_per_node:
        by_name = Counter(gpu.name for gpu in gpus)
        names = ", ".join(f"{n} x {name}" for name, n in by_name.items()) or "none"
        detail = [f"found on {detected.host or 'this machine'}: {names}"]
        if detected.reason:
            detail.append(f"because: {detected.reason}")
        detail.append("CUDA_VISIBLE_DEVICES is not set" if mask is None else f"CUDA_VISIBLE_DEVICES={mask!r}")
        fewer = [f"hardware.gpus_per_node={len(gpus)}"] if gpus else []
        yield Diagnostic(
            code="ZC701",
            path="hardware.gpus_per_node",
            message=f"the run is for {counted(hardware.gpus_per_node, 'GPU')} a node ({hardware.gpu or hardware.name}), "
            f"this machine has {len(gpus)}",
            detail=tuple(detail),
            hint=", ".join(["hardware=auto", *fewer, "hardware=cpu"]) + "; `zerocfg compile` needs no GPU",
        )
    elif hardware.gpu and not plan.detected:
        others = sorted({gpu.name for gpu in gpus[: hardware.gpus_per_node] if not same_gpu(hardware.gpu, gpu.name)})
        if others:
            yield Diagnostic(
                code="ZC703",
                severity=Severity.WARNING,
                path="hardware.gpu",
                message=f"hardware.gpu={hardware.gpu}, but this machine has {', '.join(others)}",
                detail=("sizes that follow from memory, bandwidth and dtypes may not fit",),
                hint="hardware=auto",
            )


def check_requeues(plan: Plan) -> Iterator[Diagnostic]:
    """ZC714 (note): on this machine nobody puts a job back into a queue."""
    most = plan.checkpoint.max_requeues
    if plan.checkpoint.enabled and most != CheckpointConfig.max_requeues:
        yield Diagnostic(
            code="ZC714",
            severity=Severity.NOTE,
            path="checkpoint.max_requeues",
            message=f"checkpoint.max_requeues={most} has no effect on this machine: a job that is stopped saves and ends with status 85",
            hint="the same command goes on; hydra/launcher=zerocfg_slurm starts it again by itself",
        )


def check_container(plan: Plan, which: Callable[[str], str | None]) -> Iterator[Diagnostic]:
    """ZC744 pyxis without SLURM, ZC745 no docker or apptainer here. which: path of a program, None where there is none."""
    kind = plan.container.kind
    if kind == "pyxis":
        yield Diagnostic(
            code="ZC744",
            path="container.kind",
            message="container=pyxis needs srun, but hydra/launcher=zerocfg_local starts the ranks",
            hint="hydra/launcher=zerocfg_slurm, or container=docker, container=apptainer",
        )
    elif kind != "none" and which(kind) is None:
        yield Diagnostic(
            code="ZC745",
            path="container.kind",
            message=f"container={kind}, but this machine has no program {kind} on its PATH",
            hint="install it, or container=none",
        )


def check_packages(plan: Plan, installed: Callable[[str], str]) -> Iterator[Diagnostic]:
    """ZC711 wandb is asked for and missing where the ranks' Python is this one. installed: version of a distribution, empty without."""
    if "wandb" in plan.train.trackers and plan.container.kind == "none" and not installed("wandb"):
        others = ",".join(name for name in plan.train.trackers if name != "wandb")
        yield Diagnostic(
            code="ZC711",
            path="train.trackers",
            message=f"train.trackers=[{','.join(plan.train.trackers)}], but the package wandb is not installed",
            hint=f"pip install wandb, or train.trackers=[{others}]",
        )


def same_gpu(named: str, found: str) -> bool:
    """Whether a data sheet's name and NVML's mean the same board: H200-SXM-141GB and NVIDIA H200."""
    ours, theirs = gpu_facts(named), gpu_facts(found)
    if ours is not None and theirs is not None:
        return ours.gpu == theirs.gpu
    return named.removeprefix("NVIDIA ").casefold() == found.removeprefix("NVIDIA ").casefold()


def check_folder_name(folder: str, overrides: Sequence[str]) -> Iterator[Diagnostic]:
    """ZC814 a folder that is named after an override with a secret (hydra.job.override_dirname). The name is not shown."""
    for override in overrides:
        key, equals, _ = override.partition("=")
        if equals and hide_override(override) != override and f"{key}=" in folder:
            yield Diagnostic(
                code="ZC814",
                path="hydra.sweep.subdir",
                message=f"the job's folder would be named after {key}, with its value",
                hint=f"hydra.sweep.subdir='${{hydra.job.num}}', or hydra.job.config.override_dirname.exclude_keys=['{key}']",
            )


def check_folders(folders: Sequence[Path]) -> Iterator[Diagnostic]:
    """ZC705 two jobs share a folder, ZC708 a name that submitit would change. folders: one a job, absolute."""
    for folder, n in Counter(folders).items():
        if n > 1:
            jobs = [str(i) for i, other in enumerate(folders) if other == folder]
            yield Diagnostic(
                code="ZC705",
                path="hydra.sweep.subdir",
                message=f"jobs {', '.join(jobs)} have the same folder {folder}",
                detail=("they would overwrite each other",),
                hint="hydra.sweep.subdir='${hydra.job.num}'",
            )
        if any(tag in str(folder) for tag in _TAGS):
            yield Diagnostic(
                code="ZC708",
                path="hydra.sweep.dir",
                message=f"{folder} holds one of {', '.join(_TAGS)}, which submitit replaces by a job's id",
                hint="another hydra.sweep.dir or hydra.sweep.subdir",
            )
