from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from zerocfg.passes.check.offload import CHECKS

NVME = {"optimizer": "nvme", "param": "nvme", "nvme_path": "/nvme"}
CASES: list[tuple[dict[str, Any], str]] = [
    ({}, ""),
    ({"offload": {"optimizer": "cpu"}, "parallelism.stage": 1}, ""),
    ({"offload": {"optimizer": "cpu", "param": "cpu", "ratio": 0.5}}, ""),
    ({"offload": {**NVME, "pipeline_read": True, "optimizer_buffer_count": 8, "param_max_in_cpu": 0}}, ""),
    (
        {"offload": {"optimizer": "cpu", "param": "cpu"}, "parallelism.stage": 0},
        """\
error[ZC302] offload.param=cpu has no effect at stage 0: only stage 3 shards parameters
  try: parallelism=zero3, or offload.param=none
error[ZC304] offload.optimizer=cpu needs ZeRO stage 1, 2 or 3; at stage 0 the first step fails
  try: parallelism=zero3, or offload=none""",
    ),
    (
        {"offload": {"optimizer": "nvme"}, "parallelism.stage": 1},
        """\
error[ZC303] offload.optimizer=nvme at stage 1 would use host memory in silence: only stage 3 swaps to NVMe
  try: parallelism=zero3, or offload=optimizer
error[ZC305] offload to nvme needs offload.nvme_path
  try: offload.nvme_path=/local_nvme""",
    ),
    (
        {"offload": {"optimizer": "cpu", "nvme_path": "/nvme"}},
        """\
warning[ZC305] offload.nvme_path=/nvme is not used: nothing is offloaded to nvme
  try: offload.nvme_path=null, or offload=optimizer_nvme""",
    ),
    (
        {"offload": {"optimizer": "cpu", "ratio": 1.5}},
        "error[ZC308] offload.ratio=1.5 is not between 0 and 1\n  try: offload.ratio=1.0",
    ),
    (
        {"offload": {"optimizer": "cpu", "ratio": 0.5}, "parallelism.stage": 2},
        "error[ZC308] offload.ratio=0.5 needs stage 3, not stage 2\n  try: parallelism=zero3, or offload.ratio=1.0",
    ),
    (
        {"offload.ratio": 0.5},
        "error[ZC308] offload.ratio=0.5 has no effect: the optimizer is not offloaded\n  try: offload=optimizer, or offload.ratio=1.0",
    ),
    (
        {"offload": {"optimizer": "cpu", "ratio": 0.5}, "optimizer.type": "Lion"},
        """\
error[ZC308] offload.ratio=0.5 works with DeepSpeed's CPU Adam only, not with Lion
  try: optimizer=adamw, or offload.ratio=1.0""",
    ),
    # on cpu torch's Adam is built
    (
        {"offload": {"optimizer": "cpu", "ratio": 0.5}, "hardware.accelerator": "cpu"},
        """\
error[ZC308] offload.ratio=0.5 works with DeepSpeed's CPU Adam only, not with torch.optim's AdamW
  try: offload.ratio=1.0
warning[ZC314] offload.optimizer=cpu gains nothing on cpu: it is host memory already
  try: offload=none""",
    ),
    ({"offload": {"optimizer": "cpu", "ratio": 0.5}, "optimizer.type": None}, ""),
    (
        {"offload": {**NVME, "param_buffer_size": 100}},
        """\
error[ZC316] offload.param_buffer_size=100 is smaller than a rank's shard of the largest parameter, 131072 elements
  1048576 elements / 8 ranks, rounded up = 131072
  try: offload.param_buffer_size=131072""",
    ),
    (
        {"offload": {**NVME, "param_buffer_count": 0, "optimizer_buffer_count": -1, "param_max_in_cpu": -1}},
        """\
error[ZC317] offload.param_buffer_count=0 must be at least 1
  try: offload.param_buffer_count=4
error[ZC317] offload.param_max_in_cpu=-1 must be at least 0
  try: offload.param_max_in_cpu=4
error[ZC317] offload.optimizer_buffer_count=-1 must be at least 1
  try: offload.optimizer_buffer_count=4""",
    ),
    (
        {"offload": {"optimizer": "cpu", "param_buffer_size": 10**8, "pipeline_write": True}},
        """\
error[ZC317] offload.param_buffer_size=100000000 has no effect: offload.param=none, not nvme
  try: offload.param_buffer_size=null, or offload=all_nvme offload.nvme_path=/local_nvme
error[ZC317] offload.pipeline_write=True has no effect: offload.optimizer=cpu, not nvme
  try: offload.pipeline_write=false, or offload=optimizer_nvme offload.nvme_path=/local_nvme""",
    ),
]


@pytest.mark.parametrize(("changes", "report"), CASES)
def test_report(changes: dict[str, Any], report: str, checked: Callable[..., str]) -> None:
    assert checked(changes, CHECKS) == report
