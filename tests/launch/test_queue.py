"""Which job starts next, without starting any: the order is what counts."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from zerocfg.launch.pool import Device, Lease, Pool, cores
from zerocfg.launch.queue import LocalQueue


def queue(tmp_path: Path, widths: list[int]) -> Any:
    made = LocalQueue.__new__(LocalQueue)
    made._pools = {"gpu": Pool("gpu", [Device("0", "a"), Device("1", "b")], tmp_path), "core": Pool("core", cores(2), tmp_path)}
    jobs = [
        SimpleNamespace(number=n, run=SimpleNamespace(resources=SimpleNamespace(gpus_per_node=width, cpus_per_node=1)))
        for n, width in enumerate(widths)
    ]
    made._waiting, made._overtaken = deque(jobs), 0
    return made


def test_narrow_jobs_run_side_by_side_and_the_wide_one_is_not_starved(tmp_path: Path) -> None:
    waiting = queue(tmp_path, [1, 2, 1, 2, 1, 1, 1])
    running: dict[int, Lease] = {}
    order: list[list[int]] = []
    try:
        while waiting._waiting or running:
            while waiting._waiting and (found := waiting._next()) is not None:
                running[found[0].number] = found[1]
            order.append(sorted(running))
            assert running, "nothing fits, and nothing runs"
            running.pop(min(running)).close()
    finally:
        for lease in running.values():
            lease.close()
        for pool in waiting._pools.values():
            pool.give_up()
    # 1 (wide) is overtaken by 2 and 4, no more; then what comes free is kept for it
    assert order[:4] == [[0, 2], [2, 4], [4], [1]]
    assert [3] in order
    assert sorted({number for together in order for number in together}) == list(range(7))
