"""SLURM, containers, and the variables that a shell exports."""

from __future__ import annotations

from tests.doctor.fake_machine import FakeMachine
from tests.doctor.fault import FAIL, IB, SLURM, TWO_NODES, WARN, Case
from zerocfg.doctor.machine import TIMED_OUT, Ran

CASES = [
    Case("no SLURM", "ZC862", FAIL, "slurm", {}, {}, ("scontrol",), {"slurm": True}),
    Case(
        "SLURM silent",
        "ZC862",
        FAIL,
        "slurm",
        {"programs": SLURM, "answers": {"scontrol --version": Ran(0, "slurm 24.11.5\n"), "scontrol show config": Ran(TIMED_OUT)}},
        {},
        ("slurm 24.11.5", "slurmctld"),
        {"slurm": True},
    ),
    Case("SLURM silent, no run", "ZC862", WARN, "slurm", {"programs": SLURM}, None, ("SLURM",)),
    Case("no docker", "ZC863", FAIL, "container", {}, {"container.kind": "docker", "container.image": "x"}, ("docker",)),
    Case(
        "docker silent",
        "ZC863",
        FAIL,
        "container",
        {"programs": {**FakeMachine().programs, "docker": "/usr/bin/docker"}},
        {"container.kind": "docker", "container.image": "x"},
        ("does not answer",),
    ),
    Case(
        "docker without NVIDIA",
        "ZC863",
        WARN,
        "container",
        {
            "programs": {**FakeMachine().programs, "docker": "/usr/bin/docker"},
            "answers": {"docker info --format {{.ServerVersion}} {{json .Runtimes}}": Ran(0, '28.2.2 {"runc":{}}')},
        },
        {"container.kind": "docker", "container.image": "x"},
        ("nvidia-container-toolkit",),
    ),
    Case(
        "no image",
        "ZC863",
        WARN,
        "container",
        {
            "programs": {**FakeMachine().programs, "docker": "/usr/bin/docker"},
            "answers": {"docker info --format {{.ServerVersion}} {{json .Runtimes}}": Ran(0, '28.2.2 {"nvidia":{}}')},
        },
        {"container.kind": "docker", "container.image": "x"},
        ("docker build",),
    ),
    Case(
        "no .sif",
        "ZC863",
        FAIL,
        "container",
        {"programs": {**FakeMachine().programs, "apptainer": "/usr/bin/apptainer"}},
        {"container.kind": "apptainer", "container.image": "/x.sif"},
        ("/x.sif",),
    ),
    Case(
        "no pyxis",
        "ZC863",
        FAIL,
        "container",
        {"answers": {"srun --help": Ran(0, "  --nodes")}, "programs": SLURM},
        {"container.kind": "pyxis", "container.image": "/x.sqsh"},
        ("pyxis",),
        {"slurm": True},
    ),
    Case("P2P off", "ZC870", WARN, "environment", {"environ": {"NCCL_P2P_DISABLE": "1"}}, {}, ("NVLink", "unset NCCL_P2P_DISABLE")),
    Case("IB off", "ZC870", WARN, "environment", {"environ": {"NCCL_IB_DISABLE": "1"}, "files": IB}, TWO_NODES, ("TCP",)),
    Case("NVLS off", "ZC870", WARN, "environment", {"environ": {"NCCL_NVLS_ENABLE": "0"}}, {}, ("NVSwitch",)),
    Case("blocking", "ZC870", WARN, "environment", {"environ": {"CUDA_LAUNCH_BLOCKING": "1"}}, {}, ("each kernel",)),
    Case(
        "threads",
        "ZC870",
        WARN,
        "environment",
        {"environ": {"OMP_NUM_THREADS": "1"}},
        {"offload.optimizer": "cpu"},
        ("OMP_NUM_THREADS=1", "8 cores a rank"),
    ),
    Case(
        "a rank's environment", "ZC870", FAIL, "environment", {"environ": {"RANK": "0", "WORLD_SIZE": "1"}}, {}, ("unset RANK WORLD_SIZE",)
    ),
    Case("stubs", "ZC870", FAIL, "environment", {"environ": {"LD_LIBRARY_PATH": "/usr/local/cuda/lib64/stubs"}}, {}, ("libcuda.so",)),
]
