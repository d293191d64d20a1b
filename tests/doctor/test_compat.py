from __future__ import annotations

import pytest

from zerocfg.doctor.compat import driver_runs, has_code_for, needed_driver, torch_for, version, xid_meaning


@pytest.mark.parametrize(
    ("driver", "driver_cuda", "cuda", "runs"),
    [
        ("580.65.06", (13, 0), (13, 0), True),
        ("580.65.06", (13, 0), (13, 2), True),  # minor versions are compatible
        ("575.57.08", (12, 9), (13, 0), False),
        ("570.86.10", (12, 8), (12, 9), True),
        ("525.60.13", (12, 0), (12, 8), True),
        ("520.61.05", (11, 8), (12, 8), False),
        ("450.80.02", (11, 0), (11, 8), True),
        ("450.51.06", (11, 0), (11, 8), True),  # libcuda says 11
        ("450.51.06", (10, 2), (11, 8), False),
        ("535.104.05", (13, 0), (13, 0), True),  # cuda-compat
        ("590.44.01", (13, 1), (14, 0), False),
        ("600.1", (14, 0), (14, 0), True),
    ],
)
def test_drivers(driver: str, driver_cuda: tuple[int, int], cuda: tuple[int, int], runs: bool) -> None:
    assert driver_runs(version(driver), driver_cuda, cuda) is runs


def test_what_to_install_instead() -> None:
    assert torch_for(version("550.54.15")) == "torch==2.10.*"
    # torch 2.3 would run there, zerocfg would not with it
    assert torch_for(version("470.1")) == ""
    assert torch_for(version("418.87")) == ""
    assert needed_driver((13, 0)) == "580"
    assert needed_driver((12, 8)) == "525.60.13"
    assert needed_driver((15, 0)) == "one for CUDA 15"


@pytest.mark.parametrize(
    ("capability", "cuda", "there_is"),
    [
        ((7, 0), (12, 6), True),
        ((7, 0), (13, 0), False),
        ((7, 5), (13, 0), True),
        ((8, 0), (11, 8), True),
        ((9, 0), (11, 8), True),
        ((9, 0), (11, 7), False),
        ((10, 0), (12, 6), False),
        ((10, 0), (12, 8), True),
        ((12, 0), (12, 8), True),
        ((12, 0), (12, 6), False),
    ],
)
def test_capabilities(capability: tuple[int, int], cuda: tuple[int, int], there_is: bool) -> None:
    assert has_code_for(capability, cuda) is there_is


@pytest.mark.parametrize(
    ("text", "numbers"), [("2.13.0+cu130", (2, 13, 0)), ("535.104.05", (535, 104, 5)), ("", ()), ("nightly", ()), (" 13", (13,))]
)
def test_versions(text: str, numbers: tuple[int, ...]) -> None:
    assert version(text) == numbers


def test_xids() -> None:
    assert xid_meaning(79) == ("the GPU has fallen off the bus", True)
    assert xid_meaning(31)[1] is False
    assert xid_meaning(12345)[1] is False
