"""What the cluster is made of, as scontrol tells it: partitions, their nodes, their limits."""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field

_TIMEOUT_SECONDS = 60.0
_FIELD = r"(?:^|\s){}=(\S*)"


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    name: str
    partitions: tuple[str, ...]
    cpus: int
    """As SLURM counts them, those kept for the system left out."""
    threads_per_core: int
    memory_mb: int
    gpus: tuple[tuple[str, int], ...]
    """(gres type, count); the type is empty where the cluster names none."""
    features: tuple[str, ...] = ()

    def num_gpus(self, gpu_type: str | None = None) -> int:
        return sum(count for kind, count in self.gpus if gpu_type is None or kind == gpu_type)


@dataclass(frozen=True, kw_only=True, slots=True)
class Partition:
    name: str
    default: bool
    max_time_min: float
    """Minutes; infinite without a limit."""
    max_nodes: float
    """Of one job; infinite without a limit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cluster:
    partitions: tuple[Partition, ...]
    nodes: tuple[Node, ...]
    max_array_size: int
    """Array indices are below it; 1 or less: no arrays."""

    def partition(self, name: str) -> Partition | None:
        return next((p for p in self.partitions if p.name == name), None)

    def nodes_of(self, partition: str) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes if partition in node.partitions)

    @property
    def default_partition(self) -> str:
        """Empty: the cluster has none."""
        return next((p.name for p in self.partitions if p.default), "")


@dataclass(frozen=True, slots=True)
class Unread:
    """Why the cluster could not be looked at."""

    reason: str
    missing: tuple[str, ...] = field(default=())
    """Commands that are not there."""


def missing_commands(names: Sequence[str] = ("sbatch", "squeue", "scontrol", "srun")) -> tuple[str, ...]:
    """srun: submitit looks for it."""
    return tuple(name for name in names if shutil.which(name) is None)


def read_cluster() -> Cluster | Unread:
    """Three calls of scontrol. Never raises."""
    if absent := missing_commands(("scontrol",)):
        return Unread(f"no {', '.join(absent)} on this machine", absent)
    texts = []
    for words in (("--oneliner", "show", "partition"), ("--oneliner", "show", "node"), ("show", "config")):
        try:
            done = subprocess.run(["scontrol", *words], capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False, env=_env())
        except (OSError, subprocess.TimeoutExpired) as problem:
            return Unread(f"scontrol {' '.join(words)}: {problem}")
        if done.returncode != 0:
            return Unread(f"scontrol {' '.join(words)}: {(done.stderr or done.stdout).strip()}")
        texts.append(done.stdout)
    return parse_cluster(*texts)


def _env() -> dict[str, str]:
    return {**os.environ, "LC_ALL": "C.UTF-8"}


def parse_cluster(partitions: str, nodes: str, config: str) -> Cluster:
    """Text of `scontrol --oneliner show partition`, `... show node` and `scontrol show config`."""
    size = re.search(r"^MaxArraySize\s*=\s*(\d+)", config, re.MULTILINE)
    return Cluster(
        partitions=tuple(_partition(line) for line in partitions.splitlines() if line.startswith("PartitionName=")),
        nodes=tuple(_node(line) for line in nodes.splitlines() if line.startswith("NodeName=")),
        max_array_size=int(size[1]) if size else 1001,
    )


def _value(line: str, name: str, default: str = "") -> str:
    found = re.search(_FIELD.format(name), line)
    return default if found is None or found[1] in ("(null)", "N/A") else found[1]


def _partition(line: str) -> Partition:
    most = _value(line, "MaxNodes", "UNLIMITED")
    return Partition(
        name=_value(line, "PartitionName"),
        default=_value(line, "Default") == "YES",
        max_time_min=parse_time(_value(line, "MaxTime", "UNLIMITED")),
        max_nodes=int(most) if most.isdigit() else math.inf,
    )


def _node(line: str) -> Node:
    cpus = _value(line, "CPUEfctv") or _value(line, "CPUTot", "0")
    return Node(
        name=_value(line, "NodeName"),
        partitions=tuple(filter(None, _value(line, "Partitions").split(","))),
        cpus=int(cpus),
        threads_per_core=max(1, int(_value(line, "ThreadsPerCore", "1"))),
        memory_mb=int(_value(line, "RealMemory", "0")),
        gpus=parse_gres(_value(line, "Gres")),
        features=tuple(filter(None, _value(line, "AvailableFeatures").split(","))),
    )


def parse_gres(text: str) -> tuple[tuple[str, int], ...]:
    """`gpu:a100:4(S:0-1),shard:8` -> (("a100", 4),). GPUs of one type are added up."""
    found: dict[str, int] = {}
    for entry in re.sub(r"\([^)]*\)", "", text).split(","):
        name, *rest = entry.split(":")
        if name != "gpu":
            continue
        rest = [word for word in rest if word != "no_consume"]
        number = re.fullmatch(r"(\d+)([KMGT]?)", rest[-1]) if rest else None
        if number is None:
            count, kind = 1, ":".join(rest)
        else:
            count, kind = int(number[1]) * 1024 ** " KMGT".index(number[2] or " "), ":".join(rest[:-1])
        found[kind] = found.get(kind, 0) + count
    return tuple(sorted(found.items()))


def parse_time(text: str) -> float:
    """SLURM's [days-]hours:minutes:seconds, minutes[:seconds] or UNLIMITED -> minutes."""
    days, dash, clock = text.rpartition("-")
    parts = clock.split(":")
    if not all(part.isdigit() for part in (*parts, days or "0")):
        return math.inf
    numbers = [int(part) for part in parts]
    if dash:  # days-hours[:minutes[:seconds]]
        hours, minutes, seconds = [*numbers, 0, 0][:3]
    elif len(numbers) == 3:
        hours, minutes, seconds = numbers
    else:  # minutes[:seconds]
        hours, (minutes, seconds) = 0, [*numbers, 0][:2]
    return int(days or 0) * 1440 + hours * 60 + minutes + seconds / 60
