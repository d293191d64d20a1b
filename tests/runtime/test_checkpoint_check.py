"""Damage that sizes of files do not show."""

from __future__ import annotations

from pathlib import Path

import torch

from zerocfg.runtime.checkpoint_check import damage
from zerocfg.runtime.checkpoint_files import Checkpoint


def test_each_byte_that_torch_reads(tmp_path: Path) -> None:
    """A byte that has changed is told, or makes no difference. zipfile, pickle and torch have many words for it."""
    path = tmp_path / "a.pt"
    state = {"weight": torch.arange(3.0), "step": 7}
    torch.save(state, path)
    content = path.read_bytes()
    checkpoint = Checkpoint(path=tmp_path, step=7, manifest={"files": {"a.pt": len(content)}})
    assert damage(checkpoint, rank=0, world_size=1) == ""
    assert damage(checkpoint, rank=1, world_size=2) == ""
    told = 0
    for place in range(0, len(content), 3):
        changed = bytearray(content)
        changed[place] ^= 0xFF
        path.write_bytes(changed)
        if why := damage(checkpoint, rank=0, world_size=1):
            assert why.startswith(("a.pt cannot be read: ", "a.pt is damaged: the checksum of "))
            assert "\n" not in why
            told += 1
        else:
            found = torch.load(path)
            assert torch.equal(found["weight"], state["weight"])  # type: ignore[arg-type]
            assert found["step"] == 7
    assert told > 100
