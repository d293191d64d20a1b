from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from zerocfg.artifact import Resources
from zerocfg.facts import Detected, DetectedGpu
from zerocfg.launch.pool import Device, Lease, Pool, cores, hold, lock_folder, needed, visible_gpus

Take = Callable[[Pool, int], "Lease | None"]


@pytest.fixture
def take() -> Iterator[Take]:
    """Pool.take, with everything let go at the end."""
    opened: list[Lease] = []
    pools: list[Pool] = []

    def one(pool: Pool, count: int) -> Lease | None:
        pools.append(pool)
        lease = pool.take(count)
        opened.extend([lease] if lease is not None else [])
        return lease

    yield one
    for lease in opened:
        lease.close()
    for pool in pools:
        pool.give_up()


FOUR = tuple(Device(entry, f"GPU-{entry}") for entry in ("3", "5", "6", "7"))


def machine(*uuids: str) -> Detected:
    gpus = tuple(DetectedGpu(index=i, uuid=u, name="A", memory_bytes=1, compute_capability=(8, 0)) for i, u in enumerate(uuids))
    return Detected(cpus=8, host_memory_bytes=1, numa_nodes=1, gpus=gpus)


@pytest.mark.parametrize(
    ("mask", "entries"),
    [
        (None, ["0", "1"]),
        ("5,3", ["5", "3"]),
        (" GPU-aa , MIG-bb ", ["GPU-aa", "MIG-bb"]),
    ],
)
def test_gpus_keep_the_names_of_the_mask_and_are_known_by_their_uuid(mask: str | None, entries: list[str]) -> None:
    found = visible_gpus(machine("GPU-1", "GPU-2"), {} if mask is None else {"CUDA_VISIBLE_DEVICES": mask})
    assert [(d.entry, d.identity) for d in found] == list(zip(entries, ["GPU-1", "GPU-2"], strict=True))


def test_a_device_is_given_once_and_comes_back(tmp_path: Path, take: Take) -> None:
    pool, other = Pool("gpu", FOUR, tmp_path), Pool("gpu", FOUR[2:], tmp_path)
    two = take(pool, 2)
    assert two is not None
    assert two.environment == {"CUDA_VISIBLE_DEVICES": "3,5"}
    rest = take(other, 2)
    assert rest is not None
    assert rest.environment == {"CUDA_VISIBLE_DEVICES": "6,7"}
    assert take(pool, 1) is None
    rest.close()
    again = take(pool, 1)
    assert again is not None
    assert [d.entry for d in again.devices] == ["6"]


def test_a_wide_job_keeps_what_came_free_and_no_one_overtakes_it(tmp_path: Path, take: Take) -> None:
    wide, narrow = Pool("gpu", FOUR, tmp_path), Pool("gpu", FOUR, tmp_path)
    running = take(narrow, 1)
    assert running is not None
    assert take(wide, 4) is None  # holds three and the queue
    assert take(narrow, 1) is None  # waits behind it
    running.close()
    all_four = take(wide, 4)
    assert all_four is not None
    assert [d.entry for d in all_four.devices] == ["3", "5", "6", "7"]


def test_what_a_younger_job_cannot_use_stays_free_for_others(tmp_path: Path, take: Take) -> None:
    pool, other = Pool("gpu", FOUR, tmp_path), Pool("gpu", FOUR, tmp_path)
    assert take(other, 1) is not None
    assert pool.take(4, head=False) is None
    assert take(other, 3) is not None


def test_a_younger_job_may_use_what_is_held_and_leaves_the_head_its_place(tmp_path: Path, take: Take) -> None:
    pool, other = Pool("gpu", FOUR, tmp_path), Pool("gpu", FOUR, tmp_path)
    running = take(other, 1)
    assert running is not None
    assert take(pool, 4) is None
    younger = pool.take(1, head=False)
    assert younger is not None
    assert take(other, 1) is None  # two are still held
    running.close()
    younger.close()
    assert take(pool, 4) is not None


def test_giving_up_frees_what_was_held(tmp_path: Path, take: Take) -> None:
    pool, other = Pool("gpu", FOUR, tmp_path), Pool("gpu", FOUR, tmp_path)
    running = take(other, 1)
    assert running is not None
    assert take(pool, 4) is None
    pool.give_up()
    assert take(other, 3) is not None


def test_a_job_without_its_launcher_still_has_its_devices(tmp_path: Path, take: Take) -> None:
    pool = Pool("gpu", FOUR[:1], tmp_path)
    lease = take(pool, 1)
    assert lease is not None
    job = hold(lease.inherited)  # torchrun's
    lease.close()  # the launcher was killed
    assert take(pool, 1) is None
    for file in job:
        file.close()
    assert take(pool, 1) is not None


def test_the_closest_of_the_free_ones_are_chosen(tmp_path: Path, take: Take) -> None:
    def last(free: Sequence[int], count: int) -> Sequence[int]:
        return free[-count:]

    pool = Pool("gpu", FOUR, tmp_path, last)
    lease = take(pool, 2)
    assert lease is not None
    assert [d.entry for d in lease.devices] == ["6", "7"]
    rest = take(pool, 2)
    assert rest is not None
    assert [d.entry for d in rest.devices] == ["3", "5"]


def test_more_than_there_are_is_an_error(tmp_path: Path, take: Take) -> None:
    with pytest.raises(ValueError, match="5 of 4 gpus"):
        take(Pool("gpu", FOUR, tmp_path), 5)


def test_what_a_job_waits_for() -> None:
    def resources(gpus: int, cpus: int) -> Resources:
        return Resources(
            num_nodes=1, gpus_per_node=gpus, gpu="", ranks_per_node=2, cpus_per_node=cpus, memory_bytes_per_gpu=0, host_memory_bytes=0
        )

    assert needed(None, 8) == (0, 1)
    assert needed(resources(2, 16), 8) == (2, 0)
    assert needed(resources(0, 4), 8) == (0, 4)
    assert needed(resources(0, 16), 8) == (0, 8)  # wider than the machine: all of it
    assert len(cores(0)) == 1


def test_locks_are_per_user() -> None:
    assert lock_folder({"ZEROCFG_LOCK_DIR": "/a", "XDG_RUNTIME_DIR": "/b"}) == Path("/a")
    assert lock_folder({"XDG_RUNTIME_DIR": "/b"}) == Path("/b/zerocfg")
    assert lock_folder({}).parent == Path("/tmp")
