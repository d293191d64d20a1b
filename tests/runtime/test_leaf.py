from __future__ import annotations

from typing import Any

import torch
from deepspeed.utils import get_z3_leaf_modules, set_z3_leaf_module
from torch import nn

from zerocfg.runtime.leaf import mark_leaf_modules, repeated_blocks


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(4, 8), nn.Linear(8, 4)


class Net(nn.Module):
    def __init__(self, blocks: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(10, 4)
        self.blocks = nn.ModuleList(Block() for _ in range(blocks))
        self.heads = nn.ModuleList(nn.Linear(4, 2) for _ in range(3))


def test_the_largest_repeated_part_is_marked() -> None:
    net = Net(3)
    assert mark_leaf_modules(net) == ("Block",)
    assert get_z3_leaf_modules(net) == list(net.blocks)


def test_what_zero_init_has_cut_counts_whole() -> None:
    net = Net(2)
    for parameter in net.blocks.parameters():
        cut: Any = parameter
        cut.ds_numel = parameter.numel()
        parameter.data = torch.empty(0)
    assert repeated_blocks(net) == (("Block",), list(net.blocks))


def test_nothing_is_marked_where_nothing_is_gained() -> None:
    single = nn.Sequential(nn.Embedding(10, 4), nn.Linear(4, 4))
    plain = nn.Sequential(*(nn.Linear(4, 4) for _ in range(3)))
    assert (mark_leaf_modules(single), mark_leaf_modules(plain)) == ((), ())
    assert get_z3_leaf_modules(plain) == []


def test_what_the_user_marked_stands() -> None:
    net = Net(3)
    set_z3_leaf_module(net.blocks[0].up, True)
    assert mark_leaf_modules(net) == ()
    assert get_z3_leaf_modules(net) == [net.blocks[0].up]
