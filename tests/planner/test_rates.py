from __future__ import annotations

import pytest

from tests.planner.conftest import MakePlan
from zerocfg.planner.rates import CPU_ADAM_PER_CORE, Curve, calibrated, fit, rates_of


def test_rates_of_the_machine_that_was_measured(make_plan: MakePlan) -> None:
    """Within what the microbenchmarks on two H200 scatter: products 667-690 TFLOP/s sustained, 4203 GB/s, 54 GB/s, 24 us."""
    rates = rates_of(make_plan("hardware=h200x2", "model=gpt_1b3").hardware)
    assert 660 <= rates.matmul("bf16") / 1e12 <= 700
    assert rates.matmul("fp32") / 1e12 == pytest.approx(50, rel=0.05)
    assert rates.memory_gbps == pytest.approx(4203, rel=0.01)
    assert rates.h2d_gbps == pytest.approx(54, rel=0.02)
    half = 2**30 / 2
    assert rates.all_gather.seconds(half) == pytest.approx(2001e-6, rel=0.1)
    assert rates.all_reduce.seconds(2**30) == pytest.approx(3248e-6, rel=0.1)
    assert rates.reduce_scatter.seconds(0) == pytest.approx(23.5e-6, rel=0.1)


def test_tf32_is_used_where_it_is_on(make_plan: MakePlan) -> None:
    rates = rates_of(make_plan("hardware=a100x4", "model=gpt_1b3").hardware)
    assert rates.matmul("fp32", tf32=True) > 5 * rates.matmul("fp32")
    assert rates.matmul("bf16", tf32=True) == rates.matmul("bf16")


def test_a_calibration_wins_and_what_it_lacks_stays(make_plan: MakePlan) -> None:
    hardware = make_plan("hardware=h200x2", "model=gpt_1b3").hardware
    base = rates_of(hardware)
    found = {
        "source": "calibration of this machine",
        "matmul_tflops": {"bf16": 500.0},
        "memory_gbps": 3000.0,
        "all_gather": [[1e5, 30.0], [1e9, 5030.0]],
        "cpu_adam_per_core": 2 * CPU_ADAM_PER_CORE,
        "cpu_adam_cores": 16,
    }
    rates = rates_of(hardware, found)
    assert rates.source == "calibration of this machine"
    assert rates.matmul("bf16") == 500e12
    assert rates.matmul("fp32") == base.matmul("fp32")
    assert rates.memory_gbps == 3000
    assert rates.all_gather == Curve(30.0, 200.0)
    assert rates.all_reduce == base.all_reduce
    assert rates.cpu_adam == 2 * base.cpu_adam
    assert calibrated(base, {}).matmul_tflops == base.matmul_tflops


def test_a_curve_goes_through_its_ends() -> None:
    curve = fit([[1e4, 25.0], [1e6, 27.0], [1e9, 4025.0]])
    assert curve.latency_us == 25
    assert curve.seconds(1e9) == pytest.approx(4025e-6)
    assert curve.seconds(2e9, calls=3) == pytest.approx(3 * 25e-6 + 8000e-6)


def test_a_slow_network_and_missing_peer_to_peer_show(make_plan: MakePlan) -> None:
    one = rates_of(make_plan("hardware=h100x8", "model=gpt_1b3").hardware)
    many = rates_of(make_plan("hardware=h100x8", "hardware.num_nodes=4", "hardware.network_gbps=25", "model=gpt_1b3").hardware)
    staged = rates_of(make_plan("hardware=rtx4090_x2", "model=gpt2_124m").hardware)
    assert many.all_gather.gbps == pytest.approx(25 * 0.74)
    assert many.all_gather.latency_us > one.all_gather.latency_us
    assert many.inside == one.inside
    assert staged.all_gather.gbps < 20
