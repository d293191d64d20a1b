from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from zerocfg.passes.lower.torchrun import arguments, lower_torchrun
from zerocfg.plan import Plan
from zerocfg.provenance import Reason

SIGNALS = "--signals-to-handle=SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1,SIGUSR2"
LOGS = ("--log-dir=torchrun", "--tee=3", "--local-ranks-filter=0")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ("--nnodes=1", "--nproc-per-node=8", "--standalone", "--max-restarts=0", SIGNALS, *LOGS)),
        (
            {"hardware.numa_nodes": 2, "torchrun": {"max_restarts": 2, "monitor_interval": 5.0, "signals_to_handle": ["SIGTERM"]}},
            (
                "--nnodes=1",
                "--nproc-per-node=8",
                "--standalone",
                "--max-restarts=2",
                "--monitor-interval=5.0",
                "--signals-to-handle=SIGTERM",
                *LOGS,
                "--numa-binding=node",
            ),
        ),
        (
            {"torchrun": {"rdzv_port": 1234, "rdzv_timeout": 60}},
            (
                "--nnodes=1",
                "--nproc-per-node=8",
                "--rdzv-backend=c10d",
                "--rdzv-endpoint=localhost:1234",
                "--rdzv-id=$ZEROCFG_RDZV_ID",
                "--rdzv-conf=join_timeout=60",
                "--max-restarts=0",
                SIGNALS,
                *LOGS,
            ),
        ),
        (
            {"hardware.num_nodes": 4},
            (
                "--nnodes=4",
                "--nproc-per-node=8",
                "--rdzv-backend=c10d",
                "--rdzv-endpoint=$ZEROCFG_RDZV_HOST:29500",
                "--rdzv-id=$ZEROCFG_RDZV_ID",
                "--rdzv-conf=join_timeout=900",
                "--max-restarts=0",
                SIGNALS,
                *LOGS,
            ),
        ),
    ],
)
def test_arguments(
    changes: dict[str, Any], expected: tuple[str, ...], resolved: Callable[[dict[str, Any]], tuple[Plan, Mapping[str, Reason]]]
) -> None:
    plan, reasons = resolved(changes)
    leaves = lower_torchrun(plan, reasons)
    assert arguments(leaves) == expected
    assert [leaf.path for leaf in leaves if not (leaf.reason.config_path or leaf.reason.text)] == []
