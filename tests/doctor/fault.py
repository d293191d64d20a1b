"""A faulty set-up and what doctor has to say about it; the runs and machines that the faults are variations of."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.doctor.fake_machine import FakeMachine, state
from zerocfg.doctor import Status
from zerocfg.doctor.machine import Ran
from zerocfg.facts import Detected
from zerocfg.probe.health import Health

OK, WARN, FAIL = Status.OK, Status.WARN, Status.FAIL
CPU = {"hardware.accelerator": "cpu", "hardware.gpus_per_node": 2, "hardware.numa_nodes": 1, "hardware.network": "tcp"}
TWO_NODES = {"hardware.num_nodes": 2}
NVME = {"offload": {"optimizer": "nvme", "nvme_path": "/nvme"}}
IB = {
    "/sys/class/infiniband/mlx5_0/ports/1/state": "4: ACTIVE\n",
    "/sys/class/infiniband/mlx5_0/ports/1/rate": "400 Gb/sec (4X NDR)\n",
    "/sys/module/nvidia_peermem": "",
    "/usr/local/cuda/bin/nvcc": "",
}
SLURM = {**FakeMachine().programs, **{name: f"/usr/bin/{name}" for name in ("sbatch", "srun", "scontrol", "squeue")}}


class Case(NamedTuple):
    """`check` must report `code` as `status`, in one line that holds all of `says`; `changes` is the run, None for no run."""

    name: str
    code: str
    status: Status
    check: str
    machine: dict[str, Any]
    changes: dict[str, Any] | None
    says: tuple[str, ...]
    options: dict[str, Any] = {}  # noqa: RUF012 - never changed


def health(**changes: Any) -> Health:
    return Health(driver="580.95.05", cuda=(13, 0), gpus=(state(0, **changes), *(state(i) for i in range(1, 8))))


def detected(**changes: Any) -> Detected:
    return dataclasses.replace(FakeMachine().machine, **changes)


def without(*programs: str) -> dict[str, str]:
    return {name: path for name, path in FakeMachine().programs.items() if name not in programs}


def fails_on(word: str, stderr: str) -> Callable[[tuple[str, ...], str], Ran]:
    return lambda command, source: Ran(1, "", stderr) if word in source else Ran(0)
