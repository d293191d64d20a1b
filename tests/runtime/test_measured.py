"""One reduction: loss and times are means over the ranks, memory stands by rank."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from zerocfg.runtime.measured import measured

RANK = """
import json, sys
import torch
from zerocfg.launch.ending import leave
from zerocfg.runtime.measured import measured
rank, store, out = int(sys.argv[1]), sys.argv[2], sys.argv[3]
torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
cases = [
    ([torch.tensor(1.0 + rank), torch.tensor(3.0 + rank)], {"forward": 1.0 + rank, "data": 4.0}),
    ([], {"forward": 2.0} if rank else {}),
    ([torch.tensor(7.0)] if rank else [], {}),
]
found = [measured(losses, seconds, device=torch.device("cpu"), cuda=False) for losses, seconds in cases]
with open(f"{out}/{rank}", "w") as file:
    json.dump([[m.loss, m.seconds, m.memory_by_rank] for m in found], file)
leave(0)
"""


def test_alone() -> None:
    found = measured([torch.tensor(1.0), torch.tensor(2.0)], {"backward": 3.0}, device=torch.device("cpu"), cuda=False)
    assert (found.loss, found.seconds, len(found.memory_by_rank)) == (1.5, {"backward": 3.0}, 1)
    assert found.memory_by_rank[0] > 1e7


@pytest.mark.integration
def test_two_ranks(tmp_path: Path) -> None:
    (tmp_path / "rank.py").write_text(RANK)
    command = [sys.executable, str(tmp_path / "rank.py")]
    ranks = [subprocess.Popen([*command, str(r), str(tmp_path / "store"), str(tmp_path)], env=os.environ) for r in range(2)]
    assert [rank.wait(timeout=120) for rank in ranks] == [0, 0]
    first, second = (json.loads((tmp_path / str(r)).read_text()) for r in range(2))
    assert first == second
    (both, none, one) = first
    assert both[:2] == [2.5, {"forward": 1.5, "data": 4.0}]
    # what one rank alone knows is no mean
    assert none[:2] == [None, {}]
    assert one[:2] == [7.0, {}]
    assert len(both[2]) == 2
    assert min(both[2]) > 1e7
