"""Containers and the environment: ZC7xx, ZC8xx."""

from __future__ import annotations

from tests.codes.case import c

DOCKER = {"container.kind": "docker", "container.image": "zerocfg"}
CASES = [
    c("ZC740", "container.image", {"container.kind": "docker"}, {"container.kind": "docker", "container.image": "zerocfg"}),
    c("ZC740", "container.image", {"container.image": "zerocfg"}, {}),
    c("ZC741", "container.mounts", {**DOCKER, "container.mounts": ["data"]}, {**DOCKER, "container.mounts": ["/data:/d:ro"]}),
    c(
        "ZC741",
        "container.mounts",
        {**DOCKER, "container.kind": "pyxis", "container.mounts": ["/a,b"]},
        {**DOCKER, "container.mounts": ["/a,b"]},
    ),
    c("ZC742", "container.shm_size", {**DOCKER, "container.shm_size": "big"}, {**DOCKER, "container.shm_size": "16G"}),
    c(
        "ZC742",
        "container.shm_size",
        {**DOCKER, "container.kind": "apptainer", "container.shm_size": "16g"},
        {**DOCKER, "container.kind": "apptainer"},
    ),
    c("ZC743", "container.environment", {**DOCKER, "container.environment": ["A=b"]}, {**DOCKER, "container.environment": ["A"]}),
    c("ZC743", "container.python", {**DOCKER, "container.python": ""}, {**DOCKER, "container.python": "/opt/bin/python"}),
    c(
        "ZC814",
        "container.arguments",
        {**DOCKER, "container.arguments": ["--env=HF_TOKEN=abc"]},
        {**DOCKER, "container.arguments": ["--env=HF_TOKEN"]},
    ),
    c("ZC743", "container.arguments", {**DOCKER, "container.arguments": ["a\nb"]}, {**DOCKER, "container.arguments": ["--a=b c"]}),
    c("ZC810", "env.OMP_NUM_THREADS", {}, {"env.OMP_NUM_THREADS": 4}, OMP_NUM_THREADS="2"),
    c("ZC811", "env.MASTER_PORT", {"env.MASTER_PORT": 1}, {"torchrun.rdzv_port": 1234}),
    c("ZC811", "env.PET_STANDALONE", {"env.PET_STANDALONE": 1}, {}),
    c("ZC811", "env.CUDA_VISIBLE_DEVICES", {"env.CUDA_VISIBLE_DEVICES": "0"}, {}),
    c("ZC812", "env.A-B", {"env.A-B": "x"}, {"env.A_B": "x"}),
    c("ZC812", "env.TOKENIZERS_PARALLELISM", {"env.TOKENIZERS_PARALLELISM": False}, {"env.TOKENIZERS_PARALLELISM": "false"}),
    c("ZC812", "env.X", {"env.X": None}, {"env.X": 1.5}),
    c("ZC813", "env.TORCH_CUDA_ARCH_LIST", {"env.TORCH_CUDA_ARCH_LIST": "8.0;9.0a"}, {"env.TORCH_CUDA_ARCH_LIST": "8.0;9.0+PTX"}),
]
