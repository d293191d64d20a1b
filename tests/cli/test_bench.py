"""zerocfg bench comm for real, on two processes of the CPU: numbers are right, and the file is what the planner reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from zerocfg.bench.collectives import OPS
from zerocfg.bench.curve import CommCurve
from zerocfg.cli import bench
from zerocfg.cli.bench import table

QUICK = ("hardware=cpu", "--sizes", "1K,64K")


@pytest.mark.integration
def test_two_ranks_on_the_cpu(process: Any, tmp_path: Path) -> None:
    done = process("bench", "comm", *QUICK, "--json", "--plot", "comm.svg", XDG_CACHE_HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert made["problems"] == []
    (file,) = made["files"]
    assert Path(file) == tmp_path / "zerocfg" / "comm-cpu-x2-gloo.json"
    curve = json.loads(Path(file).read_text())
    assert [curve[name] for name in ("backend", "world", "nodes", "gpu")] == ["gloo", 2, 1, "cpu"]
    assert {op: [size for size, _ in curve[op]] for op in OPS} == {op: [1024, 65536] for op in OPS}
    assert all(seconds > 0 for op in OPS for _, seconds in curve[op])
    assert {(row["op"], row["bytes"]) for row in made["rows"]} == {(op, size) for op in OPS for size in (1024, 65536)}
    assert (tmp_path / "comm.svg").stat().st_size > 1000


def test_a_curve_that_cannot_be_written_is_shown(cli: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A home that is read-only takes nothing away from what was measured."""
    points = {"all_reduce": ((1024, 1e-3),)}
    curve = CommCurve(backend="gloo", world=2, nodes=1, gpu="cpu", link="none", link_gbps=0.0, version="v", points=points)
    monkeypatch.setattr(bench, "measure", lambda *given: [curve])
    (tmp_path / "file").touch()
    for words in ((), ("--json",)):
        status, out, err = cli("bench", "comm", *QUICK, "--out", "file/there/comm.json", *words)
        assert status == 1
        assert "all_reduce" in out
        told = json.loads(out)["problems"][0]["message"] if words else err.splitlines()[0]
        assert told.removeprefix("error[ZC875] ") == "file/there/comm.json cannot be written: Not a directory"


def test_it_says_whether_the_planner_goes_by_it(cli: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    file = tmp_path / "zerocfg" / "comm-cpu-x2-gloo.json"
    ops = ("all_reduce", "all_gather", "reduce_scatter")
    for points, said in (
        (dict.fromkeys(ops, ((1024, 0.001),)), f"written to {file}\n"),
        (dict.fromkeys(ops, ((2**26, 1.0),)), f"written to {file}, which zerocfg plan goes by\n"),  # beside the small ones of before
    ):
        curve = CommCurve(backend="gloo", world=2, nodes=1, gpu="cpu", link="host", link_gbps=0.0, version="v", points=points)
        monkeypatch.setattr(bench, "measure", lambda *given, curve=curve: [curve])
        status, _, err = cli("bench", "comm", *QUICK)
        assert (status, err[-len(said) :]) == (0, said)
    assert json.loads(file.read_text())["all_reduce"] == [[1024, 1e-3], [2**26, 1.0]]


def test_ranks_that_fail_are_quoted(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real = bench.measure
    monkeypatch.setattr(bench, "measure", lambda *given: real(*given, python="/bin/false"))
    status, out, err = cli("bench", "comm", *QUICK)
    assert (status, out) == (1, "")
    assert "error[ZC873] the ranks ended with status 1" in err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["hardware=cpu", "--backend", "mpi"], "ZC871"),
        (["hardware=cpu", "--backend", "nccl"], "ZC872"),
        (["hardware=cpu", "--sizes", "huge"], "ZC871"),
        (["hardware=cpu", "hardware.num_nodes=2"], "ZC872"),
        (["hardware=cpuu"], "ZC110"),
        (["hardware=h200x2", "hardware.gpus_per_node=64", "hardware.numa_nodes=2"], "ZC701"),
    ],
)
def test_what_cannot_be_measured(cli: Any, words: list[str], code: str) -> None:
    status, out, err = cli("bench", "comm", *words)
    assert (status, out) == (1, "")
    assert f"error[{code}]" in err
    status, out, _ = cli("bench", "comm", *words, "--json")
    assert (status, [p["code"] for p in json.loads(out)["problems"]]) == (1, [code])


def test_the_table() -> None:
    """Two backends beside each other; sizes that only one of them measured."""
    nccl = CommCurve(
        backend="nccl",
        world=2,
        nodes=1,
        gpu="H200-SXM-141GB",
        link="nvswitch",
        link_gbps=450.0,
        version="torch 2.13.0, NCCL 2.29.7",
        points={"all_reduce": ((1024, 28e-6), (2**30, 3.25e-3)), "broadcast": ((1024, 25e-6),)},
    )
    gloo = CommCurve(
        backend="gloo",
        world=2,
        nodes=1,
        gpu="H200-SXM-141GB",
        link="host",
        link_gbps=0.0,
        version="torch 2.13.0",
        points={"all_reduce": ((1024, 90e-6),)},
        missing={"broadcast": "not there"},
    )
    assert (
        "\n".join(table([nccl, gloo]))
        == """\
nccl: 2 x H200-SXM-141GB, nvswitch 450 GB/s a direction; torch 2.13.0, NCCL 2.29.7
gloo: 2 x H200-SXM-141GB; torch 2.13.0

all_reduce                                        nccl |                         gloo
                         us    algbw    busbw  of link |         us    algbw    busbw
          1 KiB        28.0     0.04     0.04       0% |       90.0     0.01     0.01
          1 GiB      3250.0   330.38   330.38      73% |

broadcast                                         nccl |                         gloo
                         us    algbw    busbw  of link |         us    algbw    busbw
          1 KiB        25.0     0.04     0.04       0% |
gloo has no broadcast: not there

algbw and busbw in GB/s, as nccl-tests define them"""
    )
