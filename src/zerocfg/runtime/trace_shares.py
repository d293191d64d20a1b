"""How much of a trace of torch.profiler goes into collectives, and how much of that nothing hides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Intervals = list[tuple[float, float]]
_ON_GPU = ("kernel", "gpu_memcpy", "gpu_memset")


def trace_shares(events: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """communication_share and exposed_communication_share of the profiled steps, 0 to 1; empty for a trace without steps.

    events: traceEvents of a Chrome trace. On cuda: the time that NCCL's kernels run, waiting for other ranks included, over the time
    from the first kernel to the last; exposed is what no other kernel or copy runs beside. On cpu: gloo's collectives over the steps;
    what is exposed cannot be told there, and is left out.
    """
    collectives: Intervals = []
    others: Intervals = []
    gloo: Intervals = []
    steps: Intervals = []
    for event in events:
        if event.get("ph") != "X":
            continue
        kind, name = event.get("cat"), str(event.get("name", ""))
        at = (float(event["ts"]), float(event["ts"]) + float(event.get("dur", 0)))
        if kind in _ON_GPU:
            (collectives if "nccl" in name.lower() else others).append(at)
        elif kind == "user_annotation" and name.startswith("gloo:"):
            gloo.append(at)
        elif kind == "user_annotation" and name.startswith("ProfilerStep"):
            steps.append(at)
    if collectives or others:
        whole = max(end for _, end in (*collectives, *others)) - min(begin for begin, _ in (*collectives, *others))
        both = length(union(collectives))
        hidden = both + length(union(others)) - length(union([*collectives, *others]))
        return {"communication_share": both / whole, "exposed_communication_share": (both - hidden) / whole} if whole else {}
    if not steps:
        return {}
    whole = length(union(steps))
    return {"communication_share": length(union([at for at in gloo if at[0] >= min(steps)[0]])) / whole} if whole else {}


def union(intervals: Intervals) -> Intervals:
    """The same points in intervals that do not touch."""
    joined: Intervals = []
    for begin, end in sorted(intervals):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((begin, end))
    return joined


def length(intervals: Intervals) -> float:
    return sum(end - begin for begin, end in intervals)
