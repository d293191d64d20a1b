from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

MATRICES = Path(__file__).parents[1] / "topology" / "matrices"


def test_the_choice(cli: Any) -> None:
    status, out, err = cli("topo", "--file", str(MATRICES / "nvl_pairs.txt"), "--gpus", "2", "--free", "1,2,4,6,7")
    assert (status, err) == (0, "")
    assert out.startswith("      GPU0  GPU1")
    assert "GPUs 6,7 of the free 1,2,4,6,7:\ntorchrun --numa-binding=node: 2 NUMA nodes\n" in out
    assert "  GPU6 GPU7  [NV12]\n" in out


def test_json(cli: Any) -> None:
    status, out, _ = cli("topo", "--file", str(MATRICES / "dgx_a100.txt"), "--gpus", "2", "--json")
    made = json.loads(out)
    assert status == 0
    assert made["choice"] == [0, 1]
    assert made["islands"] == [list(range(8))]
    assert made["numa_nodes"] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert made["ranks"] == [{"gpu": gpu, "numa_node": 3, "cpus_per_rank": 16} for gpu in (0, 1)]
    assert made["nics"][0] == {"name": "mlx5_0", "links": ["PXB", "PXB", "SYS", "SYS", "SYS", "SYS", "SYS", "SYS"]}


@pytest.mark.parametrize("suffix", ["png", "svg"])
@pytest.mark.parametrize("name", ["hgx_h100", "wsl"])
def test_a_picture(cli: Any, tmp_path: Path, suffix: str, name: str) -> None:
    file = tmp_path / f"links.{suffix}"
    assert cli("topo", "--file", str(MATRICES / f"{name}.txt"), "--plot", str(file))[0] == 0
    assert file.read_bytes()[:4] in (b"\x89PNG", b"<?xm")


def test_no_gpu(cli: Any) -> None:
    assert cli("topo", "--file", str(MATRICES / "no_gpu.txt")) == (1, "no GPU: No devices were found\n", "")
    status, out, _ = cli("topo", "--file", str(MATRICES / "no_gpu.txt"), "--json")
    assert (status, json.loads(out)["reason"]) == (1, "No devices were found")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--gpus", "9"], "9 GPUs wanted, 8 free"),
        (["--free", "0,12"], "not all among the 8"),
        (["--free", "a"], "invalid literal"),
    ],
)
def test_what_cannot_be_chosen(cli: Any, options: list[str], says: str) -> None:
    status, out, err = cli("topo", "--file", str(MATRICES / "hgx_h100.txt"), *options)
    assert (status, out) == (1, "")
    assert says in err
    assert "Traceback" not in err


def test_a_file_that_is_not_there(cli: Any) -> None:
    assert cli("topo", "--file", "nothing.txt") == (1, "", "--file nothing.txt cannot be read: No such file or directory\n")
