"""zerocfg profile: the user's own model, traced without a GPU."""

from __future__ import annotations

import dataclasses
import importlib
import os
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

from zerocfg.cli import output
from zerocfg.memory.activations import ActivationTrace
from zerocfg.profile.trace import CannotTrace, causal_lm_inputs, trace_model
from zerocfg.units import human_bytes, human_count

DTYPES = ("bf16", "fp16", "fp32")


def profile_command(target: str, *, inputs: str = "2048x32000", dtype: str = "bf16", as_json: bool = False) -> int:
    """target: module:function that builds the model. inputs: LENGTHxVOCABULARY of a causal language model called with (tokens,
    targets), or module:function that takes the number of samples. Status 1 when it cannot be traced, 2 for wrong usage."""
    if dtype not in DTYPES:
        output.say(f"--dtype {dtype}: one of {', '.join(DTYPES)}")
        return 2
    sys.path.insert(0, os.getcwd())
    try:
        build = load(target)
        shape = re.fullmatch(r"(\d+)x(\d+)", inputs)
        make = causal_lm_inputs(int(shape[1]), int(shape[2])) if shape else load(inputs)
        trace = trace_model(build, make, dtype=dtype)
    except WrongTarget as wrong:
        output.say(str(wrong))
        return 2
    except CannotTrace as why:
        output.say(f"{target} cannot be traced: {why}")
        return 1
    finally:
        sys.path.pop(0)
    if as_json:
        output.product_json(as_dict(trace))
    else:
        output.product("\n".join(report(trace)))
    return 0


class WrongTarget(Exception):
    """Not module:function, or nothing there."""


def load(target: str) -> Callable[..., Any]:
    module, colon, name = target.partition(":")
    if not colon or not name:
        raise WrongTarget(f"{target} is not module:function, as in train:build")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as why:
        raise WrongTarget(f"{target}: {why}") from why
    if not callable(found):
        raise WrongTarget(f"{target} is not a function")
    return found  # type: ignore[no-any-return]


def as_dict(trace: ActivationTrace) -> dict[str, Any]:
    plain = {field.name: getattr(trace, field.name) for field in dataclasses.fields(trace) if field.name != "parameters"}
    parameters = trace.parameters
    assert parameters is not None
    counts = {
        "trainable": parameters.num_trainable,
        "frozen": parameters.num_frozen,
        "largest_module": parameters.largest_module,
        "block": parameters.block_numel,
    }
    return {**plain, "block_classes": list(trace.block_classes), "parameters": counts, "bytes_per_sample": per_sample(trace)}


def per_sample(trace: ActivationTrace) -> int:
    """Kept for the backward pass, the loss's part included."""
    return trace.kept(1, checkpointing=False) - trace.shared + trace.loss_saved


def report(trace: ActivationTrace) -> Iterator[str]:
    parameters = trace.parameters
    assert parameters is not None
    frozen = f", {human_count(parameters.num_frozen)} frozen" if parameters.num_frozen else ""
    yield f"parameters            {human_count(parameters.num_trainable)} trainable{frozen}"
    yield f"largest module        {human_count(parameters.largest_module)}"
    yield f"FLOPs a token         {trace.flops_per_token:.4g}, forward and backward"
    blocks = f"{trace.num_blocks} x {', '.join(trace.block_classes)}" if trace.block_classes else "none found"
    yield f"repeated block        {blocks}"
    yield ""
    yield f"activations a sample of {trace.tokens} tokens, {trace.dtype}"
    yield f"  one block keeps     {human_bytes(trace.block_saved)}; with activation checkpointing {human_bytes(trace.block_input)}"
    yield f"  all that is kept    {human_bytes(per_sample(trace))}"
    yield f"  loss, at its most   {human_bytes(trace.loss_backward)}"
    if trace.block_classes:
        yield ""
        names = ",".join(trace.block_classes)
        yield f"stage 3 fetches a block at a time: parallelism.leaf_module_classes=[{names}], found by itself when null"
