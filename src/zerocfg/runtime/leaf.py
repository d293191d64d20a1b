"""The model's repeated block, which stage 3 fetches as one unit."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

log = logging.getLogger("zerocfg")


def repeated_blocks(model: Any) -> tuple[tuple[str, ...], list[Any]]:
    """(class names, modules in order) of the repeated part with the most parameters: the children of a ModuleList or
    Sequential that share a class. ((), []) when nothing repeats. Parameters that zero.Init has cut count whole."""
    import torch

    best: list[Any] = []
    most = 0
    for parent in model.modules():
        if not isinstance(parent, (torch.nn.ModuleList, torch.nn.Sequential)):
            continue
        classes = Counter(type(child) for child in parent)
        for kind, number in classes.items():
            children = [child for child in parent if type(child) is kind]
            size = sum(getattr(p, "ds_numel", p.numel()) for child in children for p in child.parameters())
            if number > 1 and size > most:
                best, most = children, size
    return tuple(sorted({type(block).__name__ for block in best})), best


def mark_leaf_modules(model: Any) -> tuple[str, ...]:
    """Mark the repeated blocks as leaf modules, for deepspeed.initialize to see. Gives their class names; () when nothing repeats.

    Modules that the user marked stand; so does a block without modules inside, where there is nothing to gain.
    """
    from deepspeed.utils import get_z3_leaf_modules, set_z3_leaf_module

    if get_z3_leaf_modules(model):
        return ()
    names, blocks = repeated_blocks(model)
    blocks = [block for block in blocks if next(block.children(), None) is not None]
    for block in blocks:
        set_z3_leaf_module(block, True)
    return names if blocks else ()
