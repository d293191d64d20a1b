"""Plan -> arguments of torchrun 2.13, before the script. Paths are relative to the job's folder."""

from __future__ import annotations

from collections.abc import Mapping

from zerocfg.lowered import Leaf
from zerocfg.plan import Plan
from zerocfg.provenance import Reason, rule

_PASS = "lower.torchrun"
LOG_DIR = "torchrun"
RDZV_HOST = "$ZEROCFG_RDZV_HOST"
"""Stands for the first host of a run of several nodes; the launcher fills it in where the job starts."""
RDZV_ID = "$ZEROCFG_RDZV_ID"


def lower_torchrun(plan: Plan, reasons: Mapping[str, Reason]) -> list[Leaf]:
    """Leaves named by option (nproc-per-node); a value of True is a bare flag."""
    topology, run = plan.topology, plan.torchrun
    leaves = [
        Leaf("nnodes", topology.num_nodes, reasons["topology.num_nodes"]),
        Leaf("nproc-per-node", topology.nproc_per_node, reasons["topology.nproc_per_node"]),
    ]
    if topology.num_nodes == 1 and run.rdzv_port == 0:
        leaves.append(Leaf("standalone", True, rule(_PASS, "one node: rendezvous on a free local port")))
    else:
        first = rule(_PASS, "c10d on the first host", "hardware.num_nodes")
        host = RDZV_HOST if topology.num_nodes > 1 else "localhost"
        leaves += [
            Leaf("rdzv-backend", "c10d", first),
            Leaf("rdzv-endpoint", f"{host}:{run.rdzv_port}", reasons["torchrun.rdzv_port"]),
            Leaf("rdzv-id", RDZV_ID, rule(_PASS, "one id a job")),
            Leaf("rdzv-conf", f"join_timeout={run.rdzv_timeout}", reasons["torchrun.rdzv_timeout"]),
        ]
    leaves.append(Leaf("max-restarts", run.max_restarts, reasons["torchrun.max_restarts"]))
    if run.monitor_interval:
        leaves.append(Leaf("monitor-interval", run.monitor_interval, reasons["torchrun.monitor_interval"]))
    leaves += [
        Leaf("signals-to-handle", ",".join(run.signals_to_handle), reasons["torchrun.signals_to_handle"]),
        Leaf("log-dir", LOG_DIR, rule(_PASS, "below the job's folder")),
        Leaf("tee", 3, rule(_PASS, "stdout and stderr of every rank to a file")),
        Leaf("local-ranks-filter", 0, rule(_PASS, "the terminal shows each node's first rank")),
    ]
    if run.numa_binding != "none":
        leaves.append(Leaf("numa-binding", run.numa_binding, reasons["torchrun.numa_binding"]))
    return leaves


def arguments(leaves: list[Leaf]) -> tuple[str, ...]:
    return tuple(f"--{leaf.path}" if leaf.value is True else f"--{leaf.path}={leaf.value}" for leaf in leaves)
