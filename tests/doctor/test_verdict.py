"""Which node is not fit, out of what its ranks wrote."""

from __future__ import annotations

from typing import Any

import pytest

from zerocfg.diagnostics import Diagnostic
from zerocfg.doctor.node_check import Record
from zerocfg.doctor.verdict import summary, verdict

FAILED = {"check": "/dev/shm", "status": "fail", "code": "ZC840", "text": "/dev/shm has 64 MiB", "fix": "--ipc=host"}
SLOW = {"check": "gpu health", "status": "warn", "code": "ZC826", "text": "GPU 0 is slowed down", "fix": "cooling"}
FINE = {"check": "torch", "status": "ok", "code": "", "text": "2.13.0", "fix": ""}


def records(**changes: dict[str, Any]) -> dict[int, Record]:
    """Two nodes of two GPUs, all well; changes by rank: r3={...}."""
    made = {}
    for rank in range(4):
        fields: dict[str, Any] = {
            "rank": rank,
            "local_rank": rank % 2,
            "host": f"node{rank // 2 + 1}",
            "stage": "done",
            "device": "NVIDIA H200",
            "tflops": 640.0,
            "checksum": 1.25e6,
            "busbw_gbps": 330.0,
            "clock": 1000.0,
            "findings": [FINE] if rank % 2 == 0 else [],
        }
        made[rank] = Record(**(fields | changes.get(f"r{rank}", {})))
    return made


def judged(found: dict[int, Record], *, ended: bool = True, said: tuple[str, ...] = ()) -> list[Diagnostic]:
    return list(verdict(found, 4, ended=ended, said=said))


def test_all_is_well() -> None:
    assert judged(records()) == []
    assert summary(records()) == "preflight: 2 nodes, 4 ranks; product 640 to 640 TFLOP/s, all-reduce 330 GB/s"


def test_a_node_s_own_findings() -> None:
    first, second = judged(records(r2={"findings": [FINE, FAILED, SLOW]}))
    assert (first.code, first.severity.label, first.message) == ("ZC880", "error", "node2: /dev/shm: /dev/shm has 64 MiB")
    assert first.hint == "--ipc=host"
    assert (second.code, second.severity.label, second.message) == ("ZC826", "warning", "node2: gpu health: GPU 0 is slowed down")


def test_ranks_that_wait_are_not_blamed() -> None:
    """Rank 3 fell in its product; the others wait for it at the rendezvous."""
    waiting = {"stage": "rendezvous", "tflops": 0.0, "clock": 0.0}
    found = records(r0=waiting, r1=waiting, r2=waiting, r3={"stage": "gemm", "tflops": 0.0, "clock": 0.0})
    (problem,) = judged(found, ended=False, said=("CUDA error: uncorrectable ECC error",))
    assert problem.code == "ZC881"
    assert problem.message == "node2 did not get through the preflight"
    # rank 2 got as far as the others
    assert problem.detail == ("node2: rank 3 ended in a matrix product on its device", "CUDA error: uncorrectable ECC error")


def test_a_node_without_a_word() -> None:
    found = {rank: record for rank, record in records(r0={"stage": "rendezvous"}, r1={"stage": "rendezvous"}).items() if rank < 2}
    (problem,) = judged(found, ended=False)
    assert problem.message == "rank 2, 3 did not get through the preflight"
    assert problem.detail[0].startswith("no word from rank 2, 3")
    (problem,) = list(verdict({}, 2, ended=False, said=("no such file",)))
    assert problem.message == "rank 0, 1 did not get through the preflight"


def test_srun_says_which_node_failed_first() -> None:
    """Where one node never starts torchrun, no rank of any node starts: srun alone knows."""
    said = (
        "srun: error: node2: task 1: Exited with exit code 1",
        "srun: error: node1: task 0: Terminated",
        "node1: slurmstepd: error: *** STEP 1.0 CANCELLED ***",
        *(f"node2: line {number}" for number in range(20)),
    )
    (problem,) = list(verdict({}, 4, ended=False, said=said))
    assert problem.message == "node2 did not get through the preflight"
    assert problem.detail == ("node2: Exited with exit code 1", *(f"line {number}" for number in range(8, 20)))


def test_what_a_rank_said_comes_before_torchruns_summary() -> None:
    said = ("[default0]:Traceback", "[default0]:ValueError: x", *["torchrun's summary"] * 20)
    (problem,) = judged(records(r3={"stage": "gemm", "problem": "ValueError: x"}), ended=False, said=said)
    assert problem.detail == ("node2: rank 3 ended in a matrix product on its device: ValueError: x", *said[:2])


def test_nodes_with_the_same_finding_share_a_line() -> None:
    (problem,) = judged(records(r0={"findings": [SLOW]}, r2={"findings": [SLOW]}))
    assert problem.message == "node1, node2: gpu health: GPU 0 is slowed down"


def test_everybody_in_an_all_reduce() -> None:
    stuck = {f"r{rank}": {"stage": "all_reduce"} for rank in range(4)}
    (problem,) = judged(records(**stuck), ended=False)
    assert problem.message == "the ranks did not get through the preflight"
    assert [line.partition(":")[0] for line in problem.detail] == ["node1", "node2"]


@pytest.mark.parametrize(
    ("changes", "code", "severity", "says"),
    [
        ({"right": False}, "ZC881", "error", "node2: an all-reduce gave wrong numbers"),
        ({"checksum": 1.3e6}, "ZC882", "error", "node2, local rank 1 (NVIDIA H200) computes other numbers"),
        ({"tflops": 400.0}, "ZC882", "warning", "node2, local rank 1 (NVIDIA H200) reaches 400 TFLOP/s, the others 640"),
    ],
)
def test_one_bad_gpu_is_named(changes: dict[str, Any], code: str, severity: str, says: str) -> None:
    (problem,) = judged(records(r3=changes))
    assert (problem.code, problem.severity.label) == (code, severity)
    assert problem.message.startswith(says)


def test_different_boards_are_not_compared() -> None:
    assert judged(records(r3={"device": "NVIDIA L4", "tflops": 60.0, "checksum": 1.0})) == []
    # processes on shared cores are as fast as the scheduler lets them
    shared = {f"r{rank}": {"device": "cpu", "tflops": 0.1 + rank} for rank in range(4)}
    assert judged(records(**shared)) == []


def test_clocks() -> None:
    (problem,) = judged(records(r2={"clock": 1090.0}, r3={"clock": 1090.0}))
    assert (problem.code, problem.message) == ("ZC853", "the clock of node2 is 90 s ahead of that of node1")
    assert judged(records(r2={"clock": 1001.0}, r3={"clock": 1001.0})) == []
