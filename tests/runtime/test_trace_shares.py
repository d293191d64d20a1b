"""What a Chrome trace of torch.profiler says about collectives."""

from __future__ import annotations

from typing import Any

import pytest

from zerocfg.runtime.trace_shares import trace_shares


def at(kind: str, name: str, begin: float, end: float) -> dict[str, Any]:
    return {"ph": "X", "cat": kind, "name": name, "ts": begin, "dur": end - begin}


GEMM, NCCL = "ampere_bf16_gemm", "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([], {}),
        ([{"ph": "M", "name": "process_name"}, at("cpu_op", "aten::mm", 0, 5)], {}),
        # 100 us in all; NCCL runs 10..40 and 60..80 on one stream, 70..90 on another; products 0..20 and 30..50 and at the end
        (
            [
                at("kernel", GEMM, 0, 20),
                at("kernel", NCCL, 10, 40),
                at("kernel", GEMM, 30, 50),
                at("kernel", NCCL, 60, 80),
                at("kernel", NCCL, 70, 90),
                at("gpu_memcpy", "Memcpy HtoD", 85, 88),
                at("kernel", GEMM, 95, 100),
                at("user_annotation", "ProfilerStep#3", -500, 900),
            ],
            {"communication_share": 0.6, "exposed_communication_share": 0.37},
        ),
        (
            [
                at("user_annotation", "ProfilerStep#3", 0, 50),
                at("user_annotation", "ProfilerStep#4", 50, 100),
                at("user_annotation", "gloo:all_reduce", 10, 30),
                at("user_annotation", "gloo:all_gather", 20, 35),
                at("user_annotation", "gloo:all_reduce", -40, -20),
                at("cpu_op", "aten::mm", 40, 50),
            ],
            {"communication_share": 0.25},
        ),
    ],
)
def test_shares(events: list[dict[str, Any]], expected: dict[str, float]) -> None:
    assert trace_shares(events) == pytest.approx(expected)
