"""What can be said before anything is submitted. Pure: the cluster is an argument."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from zerocfg.compose.nearest import nearest
from zerocfg.diagnostics import Diagnostic
from zerocfg.facts import Detected, DetectedGpu
from zerocfg.gpus import TABLE, GpuFacts, gpu_facts
from zerocfg.launch.slurm_cluster import Cluster, Node, Unread
from zerocfg.passes.lower.slurm import PATH, SlurmShape
from zerocfg.schema.slurm import SlurmConfig
from zerocfg.units import counted

_WORDY = re.compile(r"^((scontrol|sbatch)[^:]*: )+((error|fatal): )?|^(error|fatal): ")
"""Before the message of a line of theirs: `scontrol show config: scontrol: error: `."""


def check_reachable(missing: Sequence[str], cluster: Cluster | Unread) -> Iterator[Diagnostic]:
    """ZC724, ZC735. missing: SLURM's commands that are not there."""
    if missing:
        yield Diagnostic(
            code="ZC724",
            path="hydra/launcher",
            message=f"hydra/launcher=zerocfg_slurm, but this machine has no {', '.join(missing)}",
            detail=("jobs are submitted from a login node of the cluster",),
            hint="the cluster's login node, or its `module load slurm`; or hydra/launcher=zerocfg_local",
        )
    elif isinstance(cluster, Unread):
        yield no_answer(cluster.reason)


def no_answer(said: str) -> Diagnostic:
    """ZC735. said: by SLURM's commands."""
    *others, last = [line for line in (_WORDY.sub("", line).strip() for line in said.splitlines()) if line] or ["no reason given"]
    return Diagnostic(
        code="ZC735",
        path="hydra/launcher",
        message=f"SLURM's controller does not answer: {last}",
        detail=tuple(others),
        hint="wait until `scontrol ping` says UP, or ask the cluster's administrators; SLURM_CONF picks another cluster",
    )


def partitions(config: SlurmConfig, cluster: Cluster, environ: Mapping[str, str]) -> list[str]:
    """Names that the jobs go to; outside of a job SBATCH_PARTITION counts. Empty: none is named and the cluster has no default."""
    asked = config.partition or _exported(environ) or cluster.default_partition
    return [name.strip() for name in asked.split(",") if name.strip()]


def _exported(environ: Mapping[str, str]) -> str:
    return "" if "SLURM_JOB_ID" in environ else environ.get("SBATCH_PARTITION", "")


def candidates(config: SlurmConfig, cluster: Cluster, names: Sequence[str]) -> list[Node]:
    """Nodes of the partitions; where the constraint is a single feature and where a GPU type is named, those that have it."""
    found = {node.name: node for name in names for node in cluster.nodes_of(name)}
    feature = config.constraint if config.constraint is not None and config.constraint.replace("_", "").isalnum() else None
    return [
        node
        for node in found.values()
        if (feature is None or feature in node.features) and (config.gpu_type is None or node.num_gpus(config.gpu_type))
    ]


def threads_per_core(config: SlurmConfig, cluster: Cluster | Unread, environ: Mapping[str, str]) -> int:
    """CPUs that SLURM counts for a core, the fewest of the nodes."""
    if isinstance(cluster, Unread):
        return 1
    return min((node.threads_per_core for node in candidates(config, cluster, partitions(config, cluster, environ))), default=1)


def check_request(
    config: SlurmConfig, shape: SlurmShape, cluster: Cluster, environ: Mapping[str, str], *, grouped: bool = True
) -> Iterator[Diagnostic]:
    """ZC725 no such partition, ZC726 over the time limit, ZC727 more than the nodes have.

    grouped: the app has zerocfg's groups; without them the launcher's own options say what a job needs.
    """
    names = partitions(config, cluster, environ)
    known = [p.name for p in cluster.partitions]
    absent = [name for name in names if name not in known]
    if absent or not names:
        near = nearest(absent[0], known, n=1) if absent else []
        said = f"{PATH}.partition={config.partition}" if config.partition else f"SBATCH_PARTITION={_exported(environ)}"
        what = f"{said}: there is no partition {', '.join(absent)}"
        yield Diagnostic(
            code="ZC725",
            path=f"{PATH}.partition",
            message=what if absent else f"{PATH}.partition is null, and the cluster has no default partition",
            detail=(f"partitions: {', '.join(known) or 'none'}",),
            hint=f"{PATH}.partition={(near or known or ['NAME'])[0]}",
        )
        return
    chosen = [p for p in cluster.partitions if p.name in names]
    limit = max(p.max_time_min for p in chosen)
    if config.timeout_min is not None and config.timeout_min > limit:
        yield Diagnostic(
            code="ZC726",
            path=f"{PATH}.timeout_min",
            message=f"{PATH}.timeout_min={config.timeout_min:g} is over the limit of partition {','.join(names)}: {limit:g} minutes",
            hint=f"{PATH}.timeout_min={limit:g}, or another {PATH}.partition",
        )
    nodes = candidates(config, cluster, names)
    says = ("hardware.gpus_per_node", "hardware.num_nodes") if grouped else (f"{PATH}.gpus_per_node", f"{PATH}.nodes")
    yield from _too_much(config, shape, nodes, names, max(p.max_nodes for p in chosen), *says)


def _too_much(
    config: SlurmConfig, shape: SlurmShape, nodes: list[Node], names: list[str], max_nodes: float, says_gpus: str, says_nodes: str
) -> Iterator[Diagnostic]:
    where = f"partition {','.join(names)}"
    flags = dict(shape.directives)
    gpus = _gpus_of(flags)
    cpus = int(flags.get("cpus-per-task") or 1)
    memory = _memory_mb(config, gpus, cpus)
    if config.gpu_type is not None and gpus and not nodes:
        yield Diagnostic(
            code="ZC727",
            path=f"{PATH}.gpu_type",
            message=f"{PATH}.gpu_type={config.gpu_type}: no node of {where} has such a GPU",
            hint=f"{PATH}.gpu_type=null, or another {PATH}.partition; `sinfo -o '%P %G'` lists them",
        )
        return
    wanted = (
        (says_gpus, gpus, counted(gpus, "GPU"), [n.num_gpus(config.gpu_type) for n in nodes], f"{says_gpus}={{}}"),
        (
            f"{PATH}.cpus_per_task",
            cpus,
            counted(cpus, "CPU"),
            [n.cpus for n in nodes],
            f"{PATH}.cpus_per_task={{0}}" + (", or hardware.cpus_per_node={0}" if says_gpus.startswith("hardware.") else ""),
        ),
        (f"{PATH}.mem_gb", memory, f"{memory:g} MiB of memory", [n.memory_mb for n in nodes], f"{PATH}.mem_gb=0 for all of a node's"),
    )
    over = False
    for path, amount, said, there, hint in wanted:
        most = max(there, default=0)
        if amount > most and nodes:
            over = True
            yield Diagnostic(
                code="ZC727",
                path=path,
                message=f"{path}: the run needs {said} a node, and no node of {where} has more than {most:g}",
                detail=(f"nodes looked at: {len(nodes)}",),
                hint=hint.format(most) if most else f"another {PATH}.partition",
            )
    if over:
        return
    fitting = sum(n.num_gpus(config.gpu_type) >= gpus and n.cpus >= cpus and n.memory_mb >= memory for n in nodes)
    most_nodes = min(float(fitting), max_nodes)
    if shape.nodes > most_nodes:
        asked = ((gpus, counted(gpus, "GPU")), (cpus, counted(cpus, "CPU")), (memory, f"{memory:g} MiB"))
        per_node = ", ".join(text for amount, text in asked if amount)
        yield Diagnostic(
            code="ZC727",
            path=says_nodes,
            message=f"{says_nodes}={shape.nodes}, but a job in {where} gets at most {most_nodes:g}",
            detail=(f"nodes with {per_node}: {fitting}; limit of the partition: {'none' if max_nodes == math.inf else int(max_nodes)}",),
            hint=f"{says_nodes}={max(1, int(most_nodes))}, or another {PATH}.partition",
        )


def _gpus_of(flags: Mapping[str, str]) -> int:
    text = flags.get("gpus-per-node") or flags.get("gres", "")
    last = text.rpartition(":")[2]
    return int(last) if last.isdigit() and (text == last or "gpu" in text or "gpus-per-node" in flags) else 0


def _memory_mb(config: SlurmConfig, gpus: int, cpus: int) -> float:
    each = ((config.mem_gb, 1), (config.mem_per_cpu_gb, cpus), (config.mem_per_gpu_gb, gpus))
    return next((gib * 1024 * times for gib, times in each if gib is not None), 0.0)


@dataclass(frozen=True, slots=True)
class PartitionMachine:
    """What `hardware=auto` means under SLURM: a node of the partition."""

    detected: Detected
    unknown: str = ""
    """Why the GPUs are not known; empty: they are, or there are none."""


def partition_machine(config: SlurmConfig, cluster: Cluster | Unread, environ: Mapping[str, str]) -> PartitionMachine:
    """The least that the partition's nodes have; GPUs by their gres type, where that names one board."""
    if isinstance(cluster, Unread):
        return PartitionMachine(Detected(cpus=0, host_memory_bytes=0, numa_nodes=1, reason=cluster.reason), cluster.reason)
    names = partitions(config, cluster, environ)
    nodes = candidates(config, cluster, names)
    where = f"partition {','.join(names)}"
    # a job that asks for GPUs never lands on the others
    nodes = [node for node in nodes if node.gpus] or nodes
    if not nodes:
        reason = f"{where} has no node that fits"
        return PartitionMachine(Detected(cpus=0, host_memory_bytes=0, numa_nodes=1, reason=reason), reason)
    gpus, unknown = _boards(nodes, where)
    detected = Detected(
        cpus=min(node.cpus // node.threads_per_core for node in nodes),
        host_memory_bytes=min(node.memory_mb for node in nodes) * 2**20,
        numa_nodes=1,
        gpus=gpus,
        link=_link(gpus),
        p2p=bool(gpus) and all((sheet := gpu_facts(gpu.name)) is not None and sheet.p2p for gpu in gpus),
        reason=unknown or f"no node of {where} has any",
        host=where,
        place=f"{where} (scontrol: gres {_gres(nodes)})",
    )
    return PartitionMachine(detected, unknown)


def _gres(nodes: Sequence[Node]) -> str:
    """As scontrol shows the nodes' GPUs: gpu:h200:8."""
    found = {",".join(f"gpu:{kind}:{count}" if kind else f"gpu:{count}" for kind, count in node.gpus) for node in nodes}
    return " or ".join(sorted(found - {""})) or "without gpu"


def _boards(nodes: Sequence[Node], where: str) -> tuple[tuple[DetectedGpu, ...], str]:
    shapes = sorted({node.gpus for node in nodes})
    if shapes == [()]:
        return (), ""
    if len(shapes) > 1 or len(shapes[0]) > 1:
        listed = "; ".join(", ".join(f"{count} x {kind or 'gpu'}" for kind, count in shape) for shape in shapes)
        return (), f"{where} has nodes with different GPUs: {listed}"
    ((kind, count),) = shapes[0]
    sheet = board(kind)
    if sheet is None:
        named = f"of gres type {kind}" if kind else "without a type"
        alike = [row.gpu for row in TABLE if kind and kind.casefold() in row.gpu.casefold()]
        says = f", which may be {' or '.join(alike)}" if alike else ", which names no GPU that zerocfg knows"
        return (), f"{where} has {counted(count, 'GPU')} {named} a node{says if kind else ''}"
    gpu = DetectedGpu(index=0, uuid="", name=sheet.gpu, memory_bytes=sheet.memory_bytes, compute_capability=sheet.compute_capability)
    return (gpu,) * count, ""


def board(gres_type: str) -> GpuFacts | None:
    """The board that a gres type names: h200, or nvidia_h100_80gb_hbm3 as SLURM's AutoDetect writes NVML's name. None: not one alone."""
    return gpu_facts(gres_type.replace("_", " ")) or gpu_facts(gres_type)


def _link(gpus: Sequence[DetectedGpu]) -> str:
    """SLURM does not tell how GPUs are linked: SXM boards are, others only over PCIe for certain."""
    if len(gpus) < 2:
        return "none"
    sheet = gpu_facts(gpus[0].name)
    return "nvlink" if sheet is not None and sheet.nvlink_gbps and ("SXM" in sheet.gpu or sheet.gpu.startswith("GB")) else "pcie"


def unknown_hardware(unknown: str) -> Diagnostic:
    """ZC728."""
    return Diagnostic(
        code="ZC728",
        path="hardware",
        message=f"hardware=auto takes the shape of a job from the partition under SLURM, and that cannot be read: {unknown}",
        hint=f"hardware=OPTION that says what the nodes have (a100x4, h100x8, ...); {PATH}.gpu_type or .constraint to pick nodes",
    )
