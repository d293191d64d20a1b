from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import pytest

from zerocfg.artifact import Resources
from zerocfg.passes.lower.environment import lower_environment, lower_resources
from zerocfg.plan import Plan
from zerocfg.provenance import Reason

Resolve = Callable[[dict[str, Any]], tuple[Plan, Mapping[str, Reason]]]
DECIDED = {
    "OMP_NUM_THREADS": "8",
    "DEEPSPEED_TIMEOUT": "10",
    "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "30",
    "TORCH_FR_BUFFER_SIZE": "2000",
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
    "TORCH_FR_DUMP_TEMP_FILE": "$ZEROCFG_RUN_DIR/nccl_trace_rank_",
}


@pytest.mark.parametrize(
    ("env", "environ", "expected", "report"),
    [
        ({}, {}, DECIDED, ""),
        ({}, {"OMP_NUM_THREADS": "8", "PATH": "/bin"}, DECIDED, ""),
        (
            {},
            {"OMP_NUM_THREADS": "2", "NCCL_NVLS_ENABLE": "0"},
            {**DECIDED, "OMP_NUM_THREADS": "2"},
            """\
note[ZC810] OMP_NUM_THREADS=2 of your environment is kept; the plan would set 8
  try: unset OMP_NUM_THREADS, or +env.OMP_NUM_THREADS=8""",
        ),
        # the config wins over both
        ({"OMP_NUM_THREADS": 4}, {"OMP_NUM_THREADS": "2"}, {**DECIDED, "OMP_NUM_THREADS": "4"}, ""),
        (
            {"A": "x y\n'\"$(rm)", "B": 1, "C": 0.5, "D": "", "_e1": "ü"},
            {},
            {**DECIDED, "A": "x y\n'\"$(rm)", "B": "1", "C": "0.5", "D": "", "_e1": "ü"},
            "",
        ),
        (
            {"RANK": 0, "PET_NNODES": 1, "TORCHELASTIC_RUN_ID": "x", "CUDA_VISIBLE_DEVICES": "0"},
            {},
            DECIDED,
            """\
error[ZC811] env.RANK is set by torchrun or the launcher
  try: ~env.RANK
error[ZC811] env.PET_NNODES is set by torchrun or the launcher
  try: ~env.PET_NNODES
error[ZC811] env.TORCHELASTIC_RUN_ID is set by torchrun or the launcher
  try: ~env.TORCHELASTIC_RUN_ID
error[ZC811] env.CUDA_VISIBLE_DEVICES is set by torchrun or the launcher
  try: export it before the launch: the launcher takes free GPUs out of it""",
        ),
        (
            {"A": True, "B": None, "C": ["x"], "1D": "x", "E F": "x", "": "x", "G": "a\0b"},
            {},
            DECIDED,
            """\
error[ZC812] env.A=true is not a text, and programs differ in what they take for true
  try: env.A=1 or '"true"'
error[ZC812] env.B=None is not a name and a text for an environment
  try: env.B='"..."', or ~env.B
error[ZC812] env.C=['x'] is not a name and a text for an environment
  try: env.C='"..."', or ~env.C
error[ZC812] env.1D='x' is not a name and a text for an environment
  try: +env.NAME=TEXT, the name of letters, digits and _
error[ZC812] env.E F='x' is not a name and a text for an environment
  try: +env.NAME=TEXT, the name of letters, digits and _
error[ZC812] env.='x' is not a name and a text for an environment
  try: +env.NAME=TEXT, the name of letters, digits and _
error[ZC812] env.G='a\\x00b' is not a name and a text for an environment
  try: env.G='"..."', or ~env.G""",
        ),
    ],
)
def test_environment(env: dict[str, Any], environ: dict[str, str], expected: dict[str, str], report: str, resolved: Resolve) -> None:
    plan, reasons = resolved({})
    leaves, found = lower_environment(plan, reasons, env, environ)
    assert {leaf.path: leaf.value for leaf in leaves} == expected
    assert "\n".join(problem.render() for problem in found) == report


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"hardware.num_nodes": 2, "hardware.cpus_per_node": 100},
            Resources(
                num_nodes=2,
                gpus_per_node=8,
                gpu="A100-SXM4-80GB",
                ranks_per_node=8,
                cpus_per_node=96,
                memory_bytes_per_gpu=80 * 2**30,
                host_memory_bytes=1024 * 2**30,
            ),
        ),
        (
            {"hardware.accelerator": "cpu", "hardware.gpu": None, "hardware.gpus_per_node": 2, "hardware.cpus_per_node": 0},
            Resources(
                num_nodes=1,
                gpus_per_node=0,
                gpu="",
                ranks_per_node=2,
                cpus_per_node=2,
                memory_bytes_per_gpu=0,
                host_memory_bytes=1024 * 2**30,
            ),
        ),
    ],
)
def test_resources(changes: dict[str, Any], expected: Resources, resolved: Resolve) -> None:
    leaves = lower_resources(*resolved(changes))
    assert {leaf.path: leaf.value for leaf in leaves} == asdict(expected)
    assert [leaf.path for leaf in leaves if not (leaf.reason.config_path or leaf.reason.text)] == []
