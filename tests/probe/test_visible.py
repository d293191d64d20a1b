from __future__ import annotations

import pytest

from zerocfg.probe.visible import Device, choose

FOUR = [Device(f"GPU-{n}{n}{n}{n}aaaa-0000") for n in range(4)]
MIG = [
    Device("GPU-aaaa", slices=("MIG-1111", "MIG-1122"), mig=True),
    Device("GPU-bbbb", slices=("MIG-2222",), mig=True),
]


def indices(mask: str | None, devices: list[Device] = FOUR) -> list[int]:
    return [index for index, _ in choose(mask, devices)[0]]


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        (None, [0, 1, 2, 3]),
        ("0,1,2,3", [0, 1, 2, 3]),
        ("2", [2]),
        ("3,1", [3, 1]),
        (" 1 , 2 ", [1, 2]),
        ("+1", [1]),
        ("1gpu,2", [1, 2]),
        # the first entry that names nothing ends the list
        ("0,-1,1", [0]),
        ("0,1,9,2", [0, 1]),
        ("0,,1", [0]),
        ("0,x,1", [0]),
        ("-1", []),
        ("NoDevFiles", []),
        ("9", []),
        ("", []),
        ("  ", []),
        # a device named twice hides all
        ("1,1", []),
        ("0,1,0", []),
        # UUIDs, by prefix
        ("GPU-2222aaaa-0000", [2]),
        ("GPU-3,GPU-0", [3, 0]),
        ("GPU-1,GPU-9,GPU-2", [1]),
        ("GPU-", []),
        ("GPU-1,GPU-1111", []),
        ("gpu-1111", []),
        # one kind a list
        ("GPU-1,2", [1]),
        ("1,GPU-2", [1]),
        ("MIG-1111", []),
    ],
)
def test_a_mask_is_read_as_cuda_reads_it(mask: str | None, expected: list[int]) -> None:
    assert indices(mask) == expected


@pytest.mark.parametrize(
    ("mask", "reason"),
    [
        (None, ""),
        ("0,1", ""),
        ("", "CUDA_VISIBLE_DEVICES is empty: all 4 GPUs are hidden"),
        ("9", "CUDA_VISIBLE_DEVICES=9: '9' names no GPU of the 4 here; all 4 GPUs are hidden"),
        ("0,9,1", "CUDA_VISIBLE_DEVICES=0,9,1: '9' names no GPU of the 4 here; it and what follows are ignored"),
        ("2,2", "CUDA_VISIBLE_DEVICES=2,2: '2' is named twice, for which CUDA hides everything"),
    ],
)
def test_the_reason_says_what_the_mask_did(mask: str | None, reason: str) -> None:
    assert choose(mask, FOUR)[1] == reason


def test_one_gpu_in_words() -> None:
    assert choose("", FOUR[:1]) == ([], "CUDA_VISIBLE_DEVICES is empty: the one GPU is hidden")


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        (None, [(0, 0)]),
        ("1", [(1, 0)]),
        ("MIG-1122", [(0, 1)]),
        ("MIG-11", []),
        ("MIG-2222,MIG-1111", [(1, 0)]),
        ("GPU-bbbb", [(1, 0)]),
    ],
)
def test_one_mig_slice_is_all_that_cuda_uses(mask: str | None, expected: list[tuple[int, int]]) -> None:
    assert choose(mask, MIG)[0] == expected


def test_slices_named_as_before_driver_r470() -> None:
    old = [Device("GPU-aaaa", slices=("MIG-GPU-aaaa/1/0", "MIG-GPU-aaaa/11/0"), mig=True)]
    assert choose("MIG-GPU-aaaa/1/0", old)[0] == [(0, 0)]
    assert choose("MIG-GPU-aaaa/11/0", old)[0] == [(0, 1)]


def test_mig_mode_without_a_slice() -> None:
    assert choose(None, [Device("GPU-aaaa", mig=True)]) == ([], "GPU 0 is in MIG mode and has no slice")


def test_whole_gpus_and_mig_do_not_mix() -> None:
    mixed = [FOUR[0], MIG[0], FOUR[1]]
    assert choose(None, mixed) == ([(0, None), (2, None)], "a GPU in MIG mode is left out beside whole GPUs")
    assert choose("1,0", mixed) == ([(1, 0)], "CUDA uses one MIG slice a process")
