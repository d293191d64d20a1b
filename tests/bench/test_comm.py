"""Curves, what is said of them, and their file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zerocfg.bench.collectives import OPS
from zerocfg.bench.comm import check, curves, judge, measured_in, rows
from zerocfg.bench.curve import CommCurve, together, write_curve
from zerocfg.compiler import compile_run
from zerocfg.diagnostics import ConfigProblems, Severity
from zerocfg.probe.links import curve_file

Make = Callable[..., dict[str, Any]]
GIB = 2**30


def curve(gbps: float = 330.0, latency: float = 30e-6, **changes: Any) -> CommCurve:
    """Two H200 as measured: all_reduce of 1 GiB at 330 GB/s on the bus."""
    fields: dict[str, Any] = {
        "backend": "nccl",
        "world": 2,
        "nodes": 1,
        "gpu": "H200-SXM-141GB",
        "link": "nvswitch",
        "link_gbps": 450.0,
        "version": "torch 2.13.0, NCCL 2.29.7",
        "points": {"all_reduce": ((1024, latency), (GIB, GIB / gbps / 1e9))},
    }
    return CommCurve(**(fields | changes))


def found(made: CommCurve, **environ: str) -> list[tuple[str, str]]:
    return [(d.code, d.severity.label) for d in judge(made, environ)]


def test_as_it_should_be() -> None:
    assert found(curve()) == []
    # an all-gather reaches less than an all-reduce there
    assert found(curve(points={"all_gather": ((GIB, GIB / 2 / 268e9),)})) == []


@pytest.mark.parametrize(
    ("changes", "environ", "first"),
    [
        ({}, {}, "PCIe in place of NVLink"),
        ({}, {"NCCL_P2P_DISABLE": "1"}, "NCCL_P2P_DISABLE=1 is set"),
        ({}, {"NCCL_NVLS_ENABLE": "0"}, "NCCL_NVLS_ENABLE=0 is set"),
        ({"link": "pcie", "link_gbps": 63.0}, {}, "pairs over two sockets"),
        ({"nodes": 2, "link": "infiniband", "link_gbps": 400.0}, {}, "NCCL on the wrong interface"),
        ({"nodes": 2, "link": "infiniband", "link_gbps": 400.0}, {"NCCL_IB_DISABLE": "1"}, "NCCL_IB_DISABLE=1 is set"),
    ],
)
def test_slow_says_why(changes: dict[str, Any], environ: dict[str, str], first: str) -> None:
    (problem,) = judge(curve(gbps=20.0, **changes), environ)
    assert (problem.code, problem.severity, problem.path) == ("ZC874", Severity.WARNING, "all_reduce")
    assert "1 GiB: 20.0 GB/s on the bus" in problem.message
    assert problem.detail[1].strip().startswith(first)


def test_slow_is_not_said_of_what_cannot_be_fast() -> None:
    assert found(curve(points={"all_reduce": ((2**20, 1e-3),)})) == []  # too small for the link's rate
    assert found(curve(gbps=1.0, link_gbps=0.0)) == []  # rate not known
    assert found(curve(gbps=1.0, backend="gloo", latency=1.0)) == []


def test_latency_and_wrong_numbers() -> None:
    assert found(curve(latency=500e-6)) == [("ZC874", "warning")]
    assert found(curve(latency=500e-6, nodes=2)) == []
    assert found(curve(wrong=("all_reduce",))) == [("ZC873", "error")]


def test_the_file(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "comm.json"
    made = curve(points={"all_reduce": ((1024, 3e-5), (GIB, 0.00325)), "all_gather": ((1024, 2.5e-5),)})
    write_curve(made, file)
    assert json.loads(file.read_text()) == made.as_dict()
    assert made.as_dict()["all_reduce"] == [[1024, 3e-5], [GIB, 0.00325]]


def test_a_later_measurement_of_less_keeps_the_rest(tmp_path: Path) -> None:
    """A look at one size takes nothing away from what the planner reads; another release's curve is replaced."""
    file = tmp_path / "comm.json"
    whole = curve(points={"all_reduce": ((1024, 3e-5), (GIB, 0.004)), "all_gather": ((1024, 2.5e-5),)})
    assert together(whole, file) == whole
    write_curve(whole, file)
    look = curve(points={"all_reduce": ((GIB, 0.003),), "broadcast": ((GIB, 0.003),)})
    assert dict(together(look, file).points) == {
        "all_reduce": ((1024, 3e-5), (GIB, 0.003)),
        "broadcast": ((GIB, 0.003),),
        "all_gather": ((1024, 2.5e-5),),
    }
    newer = curve(points={"all_reduce": ((GIB, 0.003),)}, version="another")
    assert together(newer, file) == newer
    broken = [json.dumps({**whole.as_dict(), "all_reduce": rows}) for rows in (3, [[1]])]
    for damaged in ("{", "[]", "null", *broken):
        file.write_text(damaged)
        assert together(look, file) == look


def test_what_serves_the_planner() -> None:
    """Small and large sizes of what training uses, by the backend that trains."""
    points = dict.fromkeys(("all_reduce", "all_gather", "reduce_scatter"), ((1024, 3e-05), (GIB, 0.004)))
    assert curve(points=points).serves_planner()
    assert not curve(points=points, backend="gloo").serves_planner()
    assert curve(points=points, backend="gloo", gpu="cpu").serves_planner()
    assert not curve(points={**points, "all_gather": ((GIB, 0.004),)}).serves_planner()
    assert not curve(points={**points, "reduce_scatter": ((1024, 3e-5),)}).serves_planner()


def test_where_it_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert curve_file("H200-SXM-141GB", 2, 1, "nccl") == tmp_path / "zerocfg" / "comm-h200-sxm-141gb-x2-nccl.json"
    assert curve_file("NVIDIA L40S", 16, 2, "gloo").name == "comm-nvidia-l40s-x16-n2-gloo.json"
    assert curve_file("../..", 2, 1, "gloo").parent == tmp_path / "zerocfg"


def test_what_rank_0_wrote(container: Make) -> None:
    plan = compile_run(container({"hardware.link_gbps": 300.0})).plan
    written = {
        "versions": {"torch": "2.13.0", "nccl": "2.29.7"},
        "rows": [
            {"backend": "nccl", "op": "all_reduce", "bytes": 1024, "seconds": 1e-5, "right": True},
            {"backend": "nccl", "op": "all_reduce", "bytes": 2048, "seconds": 2e-5, "right": False},
            {"backend": "gloo", "op": "all_reduce", "bytes": 1024, "seconds": 1e-4, "right": True},
            {"backend": "gloo", "op": "reduce_scatter", "refused": "not there"},
        ],
    }
    nccl, gloo = curves(written, plan.hardware)
    assert (nccl.backend, nccl.world, nccl.link, nccl.link_gbps, nccl.gpu) == ("nccl", 8, "nvswitch", 300.0, "A100-SXM4-80GB")
    assert nccl.version == "torch 2.13.0, NCCL 2.29.7"
    assert (nccl.points, nccl.wrong) == ({"all_reduce": ((1024, 1e-5), (2048, 2e-5))}, ("all_reduce",))
    assert (gloo.link, gloo.link_gbps, gloo.version, gloo.missing) == ("host", 0.0, "torch 2.13.0", {"reduce_scatter": "not there"})
    first = rows(nccl)[0]
    assert first["busbw_gbps"] == pytest.approx(1024 / 1e-5 / 1e9 * 1.75)
    assert first["share"] == pytest.approx(first["busbw_gbps"] / 300)
    assert rows(gloo)[0]["share"] is None


@pytest.mark.parametrize(
    ("changes", "backends", "sizes", "ops", "codes"),
    [
        ({}, ["nccl", "gloo"], None, OPS, []),
        ({}, ["mpi"], None, OPS, ["ZC871"]),
        ({}, ["nccl"], "big", OPS, ["ZC871"]),
        ({}, ["nccl"], "1K", ["all-reduce"], ["ZC871"]),
        ({"hardware.accelerator": "cpu"}, ["nccl"], None, OPS, ["ZC872"]),
        ({"hardware.num_nodes": 2}, ["nccl"], None, OPS, ["ZC872"]),
        ({"hardware.gpus_per_node": 1}, ["nccl"], None, OPS, ["ZC872"]),
        ({"hardware.accelerator": "cpu"}, ["x", "nccl"], "y", ["z"], ["ZC871", "ZC872", "ZC871", "ZC871"]),
    ],
)
def test_what_cannot_be_measured(
    container: Make, changes: dict[str, Any], backends: list[str], sizes: str | None, ops: list[str], codes: list[str]
) -> None:
    problems = list(check(compile_run(container(changes)), backends, sizes, ops))
    assert [problem.code for problem in problems] == codes
    assert all(problem.hint for problem in problems)


def test_a_launcher_starts_ranks_on_several_nodes(container: Make) -> None:
    run = compile_run(container({"hardware.num_nodes": 2}))
    assert list(check(run, ["nccl"], None, OPS, launched=True)) == []


def test_a_job_that_left_no_result(tmp_path: Path) -> None:
    with pytest.raises(ConfigProblems, match="ZC873"):
        measured_in(tmp_path)
    (tmp_path / "comm.json").write_text("{")
    with pytest.raises(ConfigProblems, match="the ranks left no result"):
        measured_in(tmp_path)
