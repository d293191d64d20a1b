"""`zerocfg bench comm`: ranks through torchrun with the compiled environment, their times, and what they say of the machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from zerocfg.artifact import CompiledRun
from zerocfg.bench.collectives import OPS, bus_gbps, parse_sizes, size_text
from zerocfg.bench.curve import CommCurve
from zerocfg.diagnostics import ConfigProblems, Diagnostic, Severity
from zerocfg.emit import COMPILED, LAUNCH, read_compiled, write_compiled
from zerocfg.facts import HardwareFacts
from zerocfg.probe.links import curve_gpu
from zerocfg.runtime.stored_plan import plan_from

RESULT = "comm.json"
MIB = 2**20
EXPECTED_SHARE = 0.5
"""Of the link's rate, at LARGE messages and above. Measured with NCCL: all_reduce 0.73 and all_gather 0.60 of 450 GB/s on two H200, 0.77 on
eight A100, 1.06 on eight H100 (the NVSwitch adds)."""
LARGE = 64 * MIB
SLOW_LATENCY = 200e-6
"""Seconds of the smallest message inside a node: NCCL needs 15 to 40 us."""
_TAIL = 15


def check(
    run: CompiledRun, backends: Sequence[str], sizes: str | None, ops: Sequence[str], *, launched: bool = False
) -> Iterator[Diagnostic]:
    """ZC871, ZC872. launched: by a launcher, on the nodes of the run."""
    hardware = run.plan.hardware
    for backend in backends:
        if backend not in ("nccl", "gloo"):
            yield _wrong("--backend", f"{backend!r} is neither nccl nor gloo", "--backend nccl,gloo")
        elif backend == "nccl" and not hardware.is_cuda:
            yield Diagnostic(
                code="ZC872",
                path="hardware.accelerator",
                message="--backend nccl needs GPUs, and the hardware is cpu",
                hint="--backend gloo, or hardware=OPTION with GPUs",
            )
    for op in ops:
        if op not in OPS:
            yield _wrong("--ops", f"{op!r} is none of {', '.join(OPS)}", f"--ops {OPS[0]}")
    if sizes is not None:
        try:
            parse_sizes(sizes)
        except ValueError as problem:
            yield _wrong("--sizes", str(problem), "--sizes 1K:1G:4, or --sizes 256M,1G")
    if run.plan.topology.num_nodes > 1 and not launched:
        yield Diagnostic(
            code="ZC872",
            path="hardware.num_nodes",
            message=f"hardware.num_nodes={run.plan.topology.num_nodes}, but ranks are started on this machine only",
            hint="--target slurm",
        )
    if run.plan.topology.world_size < 2:
        yield Diagnostic(
            code="ZC872",
            path="hardware.gpus_per_node",
            message="one rank has nobody to talk to",
            hint="hardware.gpus_per_node=2, or hardware=OPTION with more GPUs",
        )


def _wrong(option: str, message: str, hint: str) -> Diagnostic:
    return Diagnostic(code="ZC871", path=option, message=f"{option}: {message}", hint=hint)


def program(backends: Sequence[str], sizes: str | None, ops: Sequence[str], out: Path) -> list[str]:
    """What each rank runs, as torchrun takes it. out: written by rank 0."""
    words = ["-m", "zerocfg.bench.comm_rank", "--backend", ",".join(backends), "--ops", ",".join(ops), "--out", str(out)]
    return [*words, "--sizes", sizes] if sizes is not None else words


def measured_in(folder: Path) -> list[CommCurve]:
    """What a launched job has left in its folder. Raises ConfigProblems (ZC873) where it has left nothing that can be read."""
    try:
        found = json.loads((folder / RESULT).read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        text = f"the ranks left no result: {problem}"
        raise ConfigProblems([Diagnostic(code="ZC873", message=text, hint=f"the logs in {folder}")]) from problem
    return curves(found, plan_from(read_compiled(folder / COMPILED).plan).hardware)


def measure(
    run: CompiledRun, backends: Sequence[str], sizes: str | None, ops: Sequence[str], *, python: str = sys.executable
) -> list[CommCurve]:
    """Start the ranks and read what rank 0 wrote. Raises ConfigProblems (ZC873) with the last lines of what they said."""
    with tempfile.TemporaryDirectory(prefix="zerocfg-bench-") as folder:
        out = Path(folder) / RESULT
        write_compiled(run, Path(folder) / COMPILED, program=program(backends, sizes, ops, out), python=python)
        script = str(Path(folder) / COMPILED / LAUNCH)
        with subprocess.Popen(
            ["/bin/sh", script],
            env={**os.environ, **run.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process:
            try:
                said = process.communicate()[0].splitlines()
            except BaseException:
                process.terminate()
                raise
        if process.returncode != 0 or not out.is_file():
            raise ConfigProblems([_failed(process.returncode, said)])
        return curves(json.loads(out.read_text(encoding="utf-8")), run.plan.hardware)


def _failed(status: int, said: Sequence[str]) -> Diagnostic:
    return Diagnostic(
        code="ZC873",
        message=f"the ranks ended with status {status}",
        detail=tuple(_last_words(said)),
        hint="zerocfg doctor, with the same overrides",
    )


def _last_words(said: Sequence[str]) -> list[str]:
    """Of the ranks, if they said anything: torchrun's own summary comes last and tells nothing."""
    lines = [line.rstrip() for line in said if line.strip()]
    return ([line for line in lines if line.startswith("[default")] or lines)[-_TAIL:]


def curves(found: Mapping[str, Any], hardware: HardwareFacts) -> list[CommCurve]:
    """What rank 0 wrote -> one curve a backend, in order."""
    rows, versions = found["rows"], found["versions"]
    made = []
    for backend in dict.fromkeys(row["backend"] for row in rows):
        mine = [row for row in rows if row["backend"] == backend]
        timed = [row for row in mine if "seconds" in row]
        between = hardware.num_nodes > 1
        on_link = backend == "nccl"
        made.append(
            CommCurve(
                backend=backend,
                world=hardware.num_nodes * hardware.gpus_per_node,
                nodes=hardware.num_nodes,
                gpu=curve_gpu(hardware),
                link=(hardware.network if between else hardware.link) if on_link else "host",
                link_gbps=(hardware.network_gbps if between else hardware.link_gbps) if on_link else 0.0,
                version=f"torch {versions['torch']}" + (f", NCCL {versions['nccl']}" if on_link and versions["nccl"] else ""),
                points={
                    op: tuple((row["bytes"], row["seconds"]) for row in timed if row["op"] == op)
                    for op in dict.fromkeys(row["op"] for row in timed)
                },
                wrong=tuple(dict.fromkeys(row["op"] for row in timed if not row["right"])),
                missing={row["op"]: row["refused"] for row in mine if "refused" in row},
            )
        )
    return made


def judge(curve: CommCurve, environ: Mapping[str, str]) -> Iterator[Diagnostic]:
    """ZC873 a wrong result, ZC874 slower than the link allows, with what usually causes it."""
    for op in curve.wrong:
        yield Diagnostic(
            code="ZC873", message=f"{curve.backend} {op} gave wrong numbers", hint="zerocfg doctor: a GPU or a link is broken", path=op
        )
    if curve.backend != "nccl":
        return
    for op, points in curve.points.items():
        size, seconds = points[-1]
        if curve.link_gbps and size >= LARGE:
            rate = bus_gbps(op, size, seconds, curve.world)
            share = rate / curve.link_gbps
            if share < EXPECTED_SHARE:
                yield Diagnostic(
                    code="ZC874",
                    severity=Severity.WARNING,
                    path=op,
                    message=f"{op} of {size_text(size)}: {rate:.1f} GB/s on the bus, {share:.0%} of {curve.link}'s {curve.link_gbps:g}",
                    detail=("what usually causes it:", *(f"  {cause}" for cause in causes(curve, environ))),
                    hint="zerocfg topo, zerocfg doctor, and NCCL_DEBUG=INFO, which names the paths that NCCL took",
                )
        least, first = points[0]
        if curve.nodes == 1 and least <= 4096 and first > SLOW_LATENCY:
            yield Diagnostic(
                code="ZC874",
                severity=Severity.WARNING,
                path=op,
                message=f"{op} of {size_text(least)}: {first * 1e6:.0f} us, where 15 to 40 are usual inside a node",
                detail=(
                    "what usually causes it:",
                    "  busy or slow CPUs",
                    "  ranks on another NUMA node than their GPU",
                    "  a GPU in use by others",
                ),
                hint="torchrun.numa_binding=node, and nothing else on the machine",
            )


def causes(curve: CommCurve, environ: Mapping[str, str]) -> list[str]:
    """The likeliest first: what is set is known, the rest is not."""
    found = []
    for name, effect in (
        ("NCCL_P2P_DISABLE", "no peer-to-peer access"),
        ("NCCL_SHM_DISABLE", "no shared memory"),
        ("NCCL_IB_DISABLE", "TCP in place of InfiniBand"),
        ("NCCL_ALGO", "an algorithm for all sizes"),
        ("NCCL_PROTO", "a protocol for all sizes"),
        ("NCCL_MAX_NCHANNELS", "few channels"),
    ):
        if environ.get(name) not in (None, "", "0"):
            found.append(f"{name}={environ[name]} is set: {effect}")
    if environ.get("NCCL_NVLS_ENABLE") == "0":
        found.append("NCCL_NVLS_ENABLE=0 is set: the NVSwitch does not reduce")
    if curve.nodes > 1:
        found += [
            "NCCL on the wrong interface: hardware.network_interface, NCCL_SOCKET_IFNAME",
            "InfiniBand not used: no port up, no /dev/infiniband in the container, NCCL_IB_HCA",
            "no GPUDirect RDMA: nvidia_peermem not loaded, network cards behind another CPU than their GPU",
        ]
    elif curve.link in ("nvswitch", "nvlink"):
        found += [
            "PCIe in place of NVLink: links down, the fabric manager not running, another link than hardware.link says",
            "messages below 256 MiB",
            "GPUs slowed down by heat or power, or in use by others",
        ]
    else:
        found += [
            "pairs over two sockets (SYS in zerocfg topo)",
            "peer-to-peer refused: consumer GPUs, IOMMU or ACS on, virtual machines",
            "fewer PCIe lanes or an older generation than hardware.pcie_gbps says",
        ]
    return found


def rows(curve: CommCurve) -> list[dict[str, Any]]:
    """{backend, op, bytes, seconds, algbw_gbps, busbw_gbps, share}; share null where the link's rate is not known."""
    made = []
    for op, points in curve.points.items():
        for size, seconds in points:
            bus = bus_gbps(op, size, seconds, curve.world)
            made.append(
                {
                    "backend": curve.backend,
                    "op": op,
                    "bytes": size,
                    "seconds": seconds,
                    "algbw_gbps": size / seconds / 1e9,
                    "busbw_gbps": bus,
                    "share": bus / curve.link_gbps if curve.link_gbps else None,
                }
            )
    return made
