"""What the ranks of a preflight found -> which node is not fit, and why. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from zerocfg.diagnostics import Diagnostic, Severity
from zerocfg.doctor.node_check import Record

STRAGGLER = 0.8
"""Of the median TFLOP/s: below it a GPU holds all others up."""
_CHECKSUM = 1e-3
_SKEW_SECONDS = 5.0
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

    records: by rank. ended: torchrun ended well. said: last lines of what it said.
    """
    for record in records.values():
        for finding in record.findings:
            if finding["status"] == "ok":
                continue
            failed = finding["status"] == "fail"
            yield Diagnostic(
                code="ZC880" if failed else finding["code"],
                severity=Severity.ERROR if failed else Severity.WARNING,
                message=f"{record.host}: {finding['check']}: {finding['text']}",
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


def _stuck(records: Mapping[int, Record], world: int, said: Sequence[str]) -> Iterator[Diagnostic]:
    """The ranks that got least far are the cause; the others wait for them."""
    order = list(_STAGES)
    silent = [rank for rank in range(world) if rank not in records]
    least = min((order.index(record.stage) for record in records.values()), default=0)
    behind = [record for record in records.values() if order.index(record.stage) == least]
    hosts = dict.fromkeys(record.host for record in behind)
    late = {record.rank: record for record in behind}
    detail = [f"{host}: {_of(late, host)} ended {_STAGES[order[least]]}" for host in hosts]
    if silent:
        detail.insert(0, f"no word from rank {', '.join(map(str, silent))}: its node did not start Python, or has another file system")
    everybody = len(behind) == len(records) and not silent
    who = "the ranks" if everybody else ", ".join(hosts) if not silent else f"rank {', '.join(map(str, silent))}"
    yield Diagnostic(
        code="ZC881",
        message=f"{who} did not get through the preflight",
        detail=(*detail, *(line for line in said if line.strip())),
        hint="zerocfg doctor on that node; NCCL_DEBUG=INFO where it ended in an all-reduce",
    )


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
    return f"preflight: {len(hosts)} node{'s' if len(hosts) != 1 else ''}, {len(records)} ranks; {reached}"
