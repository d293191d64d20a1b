from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from zerocfg.facts import HardwareFacts
from zerocfg.passes.resolve.communication import resolve_communication
from zerocfg.passes.resolve.hardware import resolve_hardware
from zerocfg.passes.resolve.precision import resolve_precision
from zerocfg.passes.resolve.run import resolve_torchrun
from zerocfg.passes.resolve.topology import resolve_topology
from zerocfg.schema.hardware import HardwareConfig
from zerocfg.schema.parallelism import ParallelismConfig
from zerocfg.schema.precision import PrecisionConfig
from zerocfg.schema.run import CommunicationConfig, TorchrunConfig
from zerocfg.schema.types import Accelerator

BOARD = HardwareConfig(accelerator=Accelerator.cuda, gpus_per_node=4, memory_bytes=1, compute_capability="8.0", cpus_per_node=48)
FOUR = resolve_hardware(BOARD, None).value
TIMEOUTS = {"DEEPSPEED_TIMEOUT": "10", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "45"}
RECORDER = {
    "TORCH_FR_BUFFER_SIZE": "2000",
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
    "TORCH_FR_DUMP_TEMP_FILE": "$ZEROCFG_RUN_DIR/nccl_trace_rank_",
}


@pytest.mark.parametrize(
    ("hardware", "config", "tf32", "expected"),
    [
        ({}, {}, False, {"OMP_NUM_THREADS": "12", **TIMEOUTS, **RECORDER}),
        (
            {},
            {"timeout_minutes": 30.0},
            True,
            {"OMP_NUM_THREADS": "12", **TIMEOUTS, **RECORDER, "DEEPSPEED_TIMEOUT": "30", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "1"},
        ),
        ({"p2p": False}, {}, False, {"OMP_NUM_THREADS": "12", **TIMEOUTS, **RECORDER, "NCCL_P2P_DISABLE": "1"}),
        ({"p2p": False, "gpus_per_node": 1}, {}, False, {"OMP_NUM_THREADS": "48", **TIMEOUTS, **RECORDER}),
        # one node needs no network
        ({"network": "tcp"}, {}, False, {"OMP_NUM_THREADS": "12", **TIMEOUTS, **RECORDER}),
        (
            {"network": "tcp", "num_nodes": 2, "network_interface": "eth0"},
            {"nccl_debug": "INFO"},
            False,
            {
                "OMP_NUM_THREADS": "12",
                **TIMEOUTS,
                **RECORDER,
                "NCCL_IB_DISABLE": "1",
                "NCCL_DEBUG": "INFO",
                "NCCL_SOCKET_IFNAME": "eth0",
                "GLOO_SOCKET_IFNAME": "eth0",
            },
        ),
        ({"network": "infiniband", "num_nodes": 2}, {}, False, {"OMP_NUM_THREADS": "12", **TIMEOUTS, **RECORDER}),
        (
            {"accelerator": "cpu", "p2p": False, "network_interface": "lo"},
            {},
            True,
            {"OMP_NUM_THREADS": "12", **TIMEOUTS, "DS_ACCELERATOR": "cpu", "GLOO_SOCKET_IFNAME": "lo"},
        ),
    ],
)
def test_only_what_was_decided(hardware: dict[str, Any], config: dict[str, Any], tf32: bool, expected: dict[str, str]) -> None:
    resolved = _resolve(replace(FOUR, **hardware), CommunicationConfig(**config), tf32)
    assert dict(resolved.value.environment) == expected
    assert resolved.reasons.pop("timeout_seconds").config_path == "communication.timeout_minutes"
    assert set(resolved.reasons) == {f"environment.{name}" for name in expected}
    assert all(reason.by == "resolve.communication" and reason.text for reason in resolved.reasons.values())
    assert list(resolved.problems) == []


@pytest.mark.parametrize(
    ("accelerator", "config", "report"),
    [
        (
            "cuda",
            {"timeout_minutes": 0, "nccl_debug": "verbose"},
            """\
error[ZC221] communication.timeout_minutes=0 must be at least 0.05: the ranks' start alone takes seconds
  try: communication.timeout_minutes=10
error[ZC224] communication.nccl_debug=verbose is not one of VERSION, WARN, INFO, TRACE: NCCL ignores it in silence
  try: communication.nccl_debug=INFO""",
        ),
        (
            "cpu",
            {"nccl_debug": "info"},
            """\
error[ZC224] communication.nccl_debug=info has no effect on cpu: NCCL is not used
  try: communication.nccl_debug=null""",
        ),
    ],
)
def test_problems(accelerator: str, config: dict[str, Any], report: str) -> None:
    resolved = _resolve(replace(FOUR, accelerator=accelerator), CommunicationConfig(**config), False)
    assert "\n".join(problem.render() for problem in resolved.problems) == report


@pytest.mark.parametrize(("minutes", "seconds", "for_deepspeed"), [(0.1, 6.0, "1"), (1.5, 90.0, "2"), (10.0, 600.0, "10")])
def test_deepspeed_reads_whole_minutes(minutes: float, seconds: float, for_deepspeed: str) -> None:
    resolved = _resolve(FOUR, CommunicationConfig(timeout_minutes=minutes), False)
    assert (resolved.value.timeout_seconds, resolved.value.environment["DEEPSPEED_TIMEOUT"]) == (pytest.approx(seconds), for_deepspeed)
    assert list(resolved.problems) == []


@pytest.mark.parametrize("minutes", [0.01, float("nan"), float("inf"), -1.0])
def test_a_timeout_is_a_positive_number(minutes: float) -> None:
    (problem,) = _resolve(FOUR, CommunicationConfig(timeout_minutes=minutes), False).problems
    assert (problem.code, problem.hint) == ("ZC221", "communication.timeout_minutes=10")


def test_the_flight_recorder_of_an_older_torch() -> None:
    topology = resolve_topology(ParallelismConfig(), FOUR, None).value
    precision = resolve_precision(PrecisionConfig(), 1).value
    torchrun = resolve_torchrun(TorchrunConfig(), FOUR).value
    made = resolve_communication(CommunicationConfig(), FOUR, topology, precision, torchrun, (2, 10)).value.environment
    assert {name: value for name, value in made.items() if name.startswith("TORCH_NCCL") or "_FR_" in name} == {
        "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000",
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "$ZEROCFG_RUN_DIR/nccl_trace_rank_",
    }


def test_a_restart_finds_no_addresses_of_ranks_that_are_gone() -> None:
    topology = resolve_topology(ParallelismConfig(), FOUR, None).value
    precision = resolve_precision(PrecisionConfig(), 1).value
    restarts = resolve_torchrun(TorchrunConfig(max_restarts=2), FOUR).value
    made = resolve_communication(CommunicationConfig(), FOUR, topology, precision, restarts)
    assert made.value.environment["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] == "1"
    assert made.reasons["environment.TORCH_DISABLE_SHARE_RDZV_TCP_STORE"].config_path == "torchrun.max_restarts"


def _resolve(hardware: HardwareFacts, config: CommunicationConfig, tf32: bool) -> Any:
    topology = resolve_topology(ParallelismConfig(), hardware, None).value
    precision = resolve_precision(PrecisionConfig(tf32=tf32), 1).value
    return resolve_communication(
        config, hardware, topology, precision, resolve_torchrun(TorchrunConfig(shutdown_timeout=45), hardware).value
    )
