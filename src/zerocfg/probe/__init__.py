"""What this machine has: GPUs through NVML, cores, memory and NUMA nodes from /proc and /sys. Imports no torch."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from zerocfg.facts import Detected


def detect(
    *,
    nvml: ModuleType | None = None,
    environ: Mapping[str, str] | None = None,
    root: Path = Path("/"),
    affinity: frozenset[int] | None = None,
) -> Detected:
    """Read this machine as a process started from here would see it. Never raises: what cannot be read holds its zero.

    `nvml`: a module with pynvml's interface (null: pynvml itself). `environ`: where CUDA_VISIBLE_DEVICES is looked up (null:
    os.environ). `root`: the folder that holds proc/ and sys/. `affinity`: the CPUs that may be used (null: the process's own).
    """
    # here, because `zerocfg compile` for a named machine imports this package and looks at nothing
    from zerocfg.probe.gpus import read_gpus
    from zerocfg.probe.host import read_host

    host = read_host(root, affinity)
    found = read_gpus(nvml, os.environ if environ is None else environ, root)
    return Detected(
        cpus=host.cores,
        host_memory_bytes=host.memory_bytes,
        numa_nodes=host.numa_nodes,
        gpus=found.gpus,
        link=found.link,
        p2p=found.p2p,
        reason=found.reason,
        host=socket.gethostname(),
    )
