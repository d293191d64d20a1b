"""What the ranks of a preflight found -> which node is not fit, and why. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from zerocfg.diagnostics import Diagnostic, Severity
from zerocfg.doctor.node_check import Record
from zerocfg.units import counted

STRAGGLER = 0.8
"""Of the median TFLOP/s: below it a GPU holds all others up."""
_CHECKSUM = 1e-3
_SKEW_SECONDS = 5.0
_TAIL = 12
_SRUN = re.compile(r"srun: error: (?P<host>\S+): tasks? \S+: (?P<how>.+)")
"""srun's word on a task, the first that ended first: `srun: error: node1: task 1: Exited with exit code 1`."""
_STAGES = {
    "start": "before it had done anything",
    "doctor": "while the node was looked at",
    "gemm": "in a matrix product on its device",
    "rendezvous": "while it waited for the other ranks",
    "all_reduce": "in an all-reduce",
    "done": "at its end",
}


def verdict(records: Mapping[int, Record], world: int, *, ended: bool, said: Sequence[str] = ()) -> Iterator[Diagnostic]:
    """Codes: ZC880 a check of a node failed (or warns: a warning), ZC881 ranks that did not get through, or a wrong sum, ZC882 a device
    that computes something else than the others, or slowly, ZC853 clocks.

    records: by rank. ended: torchrun ended well. said: what it, or srun, said.
    """
    for finding, hosts in _by_finding(records):
        failed = finding["status"] == "fail"
        yield Diagnostic(
            code="ZC880" if failed else finding["code"],
            severity=Severity.ERROR if failed else Severity.WARNING,
            message=f"{', '.join(hosts)}: {finding['check']}: {finding['text']}",
            hint=finding["fix"],
        )
    if not ended:
        yield from _stuck(records, world, said)
    for host in dict.fromkeys(record.host for record in records.values() if not record.right):
        yield Diagnostic(
            code="ZC881",
            message=f"{host}: an all-reduce gave wrong numbers",
            detail=(_of({rank: record for rank, record in records.items() if not record.right}, host),),
            hint="zerocfg doctor on that node; leave it out (hydra.launcher.sbatch.exclude)",
        )
    yield from _devices(records)
    clocks = {record.host: record.clock for record in records.values() if record.clock}
    if clocks and max(clocks.values()) - min(clocks.values()) > _SKEW_SECONDS:
        ahead, behind = max(clocks, key=lambda host: clocks[host]), min(clocks, key=lambda host: clocks[host])
        yield Diagnostic(
            code="ZC853",
            severity=Severity.WARNING,
            message=f"the clock of {ahead} is {clocks[ahead] - clocks[behind]:.0f} s ahead of that of {behind}",
            hint="systemctl start chronyd on all nodes",
        )


def _by_finding(records: Mapping[int, Record]) -> Iterator[tuple[dict[str, str], list[str]]]:
    """What is not ok, and the hosts that have it: of many nodes the same is said once."""
    shared: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for record in records.values():
        for finding in record.findings:
            if finding["status"] != "ok":
                shared.setdefault(tuple(sorted(finding.items())), []).append(record.host)
    for key, hosts in shared.items():
        yield dict(key), hosts


def _stuck(records: Mapping[int, Record], world: int, said: Sequence[str]) -> Iterator[Diagnostic]:
    """The ranks that got least far are the cause; the others wait for them."""
    order = list(_STAGES)
    silent = [rank for rank in range(world) if rank not in records]
    least = min((order.index(record.stage) for record in records.values()), default=0)
    behind = [record for record in records.values() if order.index(record.stage) == least]
    hosts = dict.fromkeys(record.host for record in behind)
    late = {record.rank: record for record in behind}
    detail = []
    for host in hosts:
        seen = next((f": {record.problem}" for record in behind if record.host == host and record.problem), "")
        detail.append(f"{host}: {_of(late, host)} ended {_STAGES[order[least]]}{seen}")
    first, how, lines = failed_first(said)
    if silent and first:
        detail.insert(0, f"{first}: {how}")
    elif silent:
        detail.insert(0, f"no word from rank {', '.join(map(str, silent))}: its node did not start Python, or has another file system")
    everybody = len(behind) == len(records) and not silent
    who = "the ranks" if everybody else ", ".join(hosts) if not silent else first or f"rank {', '.join(map(str, silent))}"
    yield Diagnostic(
        code="ZC881",
        message=f"{who} did not get through the preflight",
        detail=(*detail, *lines),
        hint="zerocfg doctor on that node; NCCL_DEBUG=INFO where it ended in an all-reduce",
    )


def failed_first(said: Sequence[str]) -> tuple[str, str, list[str]]:
    """(host, how it ended, last lines of its task) of the node that failed first, as srun says; no host, and last lines of all, without
    srun's word."""
    lines = [line.rstrip() for line in said if line.strip()]
    for line in lines:
        if found := _SRUN.search(line):
            label = f"{found['host']}: "
            own = [text.removeprefix(label) for text in lines if text.startswith(label)]
            return found["host"], found["how"], _tail(own or lines)
    return "", "", _tail(lines)


def _tail(lines: list[str]) -> list[str]:
    """Of what ranks said, if they did: torchrun's own summary comes last and tells nothing."""
    return ([line for line in lines if line.startswith("[default")] or lines)[-_TAIL:]


def _devices(records: Mapping[int, Record]) -> Iterator[Diagnostic]:
    for device in dict.fromkeys(record.device for record in records.values() if record.tflops):
        alike = [record for record in records.values() if record.device == device and record.tflops]
        usual, right = median(r.tflops for r in alike), median(r.checksum for r in alike)
        for record in alike:
            name = f"{record.host}, local rank {record.local_rank} ({device})"
            if abs(record.checksum - right) > _CHECKSUM * abs(right):
                yield Diagnostic(
                    code="ZC882",
                    message=f"{name} computes other numbers than the others",
                    detail=(f"sum over a product: {record.checksum:.6g}, elsewhere {right:.6g}",),
                    hint="leave the node out and have the GPU replaced",
                )
            elif record.tflops < STRAGGLER * usual and device != "cpu":
                yield Diagnostic(
                    code="ZC882",
                    severity=Severity.WARNING,
                    message=f"{name} reaches {record.tflops:.0f} TFLOP/s, the others {usual:.0f}",
                    detail=("all ranks wait for the slowest at each step",),
                    hint="nvidia-smi -q -d PERFORMANCE there: heat, power, another process",
                )


def _of(records: Mapping[int, Record], host: str) -> str:
    """The ranks of a host: rank 3; ranks 0, 1."""
    ranks = [str(rank) for rank, record in sorted(records.items()) if record.host == host]
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(ranks)}"


def summary(records: Mapping[int, Record]) -> str:
    """One line for a preflight without errors."""
    hosts = dict.fromkeys(record.host for record in records.values())
    tflops = [record.tflops for record in records.values()]
    rate = min((record.busbw_gbps for record in records.values()), default=0.0)
    slowest, fastest = min(tflops, default=0.0), max(tflops, default=0.0)
    reached = f"product {slowest:.3g} to {fastest:.3g} TFLOP/s" + (f", all-reduce {rate:.3g} GB/s" if rate else "")
    return f"preflight: {counted(len(hosts), 'node')}, {counted(len(records), 'rank')}; {reached}"
