"""The memory model against max_memory_allocated of benchmarks/memory_accuracy.py's plans."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
GIB = 2**30

MEASURED = {
    "gpt z0 b4": 33.90,
    "gpt z1 b8": 43.23,
    "gpt z1 b4 acc2": 30.86,
    "gpt z1 b4 fp32-accum": 31.45,
    "gpt z1 b1 ckpt": 14.78,
    "gpt z2 b16": 76.60,
    "gpt z2 b4 acc2 fp16": 27.78,
    "gpt z2 b8 ckpt": 20.70,
    "gpt z2 b4 bf16-states": 22.87,
    "gpt z2 b4 offload": 19.39,
    "gpt z3 b4": 29.10,
    "gpt z3 b16": 79.14,
    "gpt z3 b32 ckpt": 55.76,
    "gpt z3 b2 tf32": 31.78,
    "gpt z3 b4 by module": 28.42,
    "gpt z3 b8 ckpt offload-all": 12.88,
    "llama z0 b1": 33.56,
    "llama z1 b4": 34.80,
    "llama z2 b8 ckpt": 35.84,
    "llama z3 b2": 25.92,
    "llama z3 b16 ckpt": 63.36,
    "llama z3 b4 acc2 offload": 27.94,
}
"""GiB of rank 0 of two on an H200, torch 2.11, DeepSpeed 0.19.8 (--alone; the collectives did nothing)."""


@pytest.fixture(scope="module")
def accuracy():
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import memory_accuracy

        yield memory_accuracy
    finally:
        sys.path.remove(str(BENCHMARKS))


@pytest.mark.parametrize("case", MEASURED)
def test_peak_within_three_per_cent_of_what_was_measured(accuracy, case):
    overrides = (*accuracy.CASES[case], "hardware=h200x2", "hardware.gpus_per_node=2")
    predicted = accuracy.prepare(case, overrides)[0].predicted["peak_allocated_bytes"] / GIB
    assert predicted == pytest.approx(MEASURED[case], rel=0.03)
