"""zerocfg profile: the user's own model, traced without a GPU."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from zerocfg.cli import output
from zerocfg.deepspeed.importer.text import pasted
from zerocfg.diagnostics import ConfigProblems
from zerocfg.errors import ZerocfgError
from zerocfg.profile.failure import CannotTrace
from zerocfg.profile.trace import Inputs, causal_lm_inputs, trace_model
from zerocfg.traced import ActivationTrace, as_profile
from zerocfg.units import human_bytes, human_count

DTYPES = ("bf16", "fp16", "fp32")


def profile_command(
    target: str,
    overrides: Sequence[str] = (),
    *,
    inputs: str | None = None,
    dtype: str | None = None,
    out: str | None = None,
    as_json: bool = False,
) -> int:
    """target: a training script that calls run.build, traced under `overrides`; or module:function that builds the model.

    inputs: LENGTHxVOCABULARY of a causal language model called with (tokens, targets), or module:function that takes the number of
    samples; a script's default is its model's dims. out: also write what model.profile reads. Status 1 when it cannot be traced or
    written, 2 for wrong usage.
    """
    script = Path(target) if target.endswith(".py") else None
    if dtype is not None and (dtype not in DTYPES or script is not None):
        output.say(f"--dtype {dtype}: " + (f"one of {', '.join(DTYPES)}" if script is None else f"precision={dtype}, as the script is run"))
        return 2
    if overrides and script is None:
        output.say(f"{' '.join(overrides)}: overrides go with a script, and {target} is none")
        return 2
    sys.path.insert(0, os.getcwd())
    try:
        make = inputs_of(inputs if inputs is not None or script is not None else "2048x32000")
        if script is not None:
            trace = _of_script(script, overrides, make)
        else:
            assert make is not None
            trace = trace_model(load(target), make, dtype=dtype or "bf16")
    except WrongTarget as wrong:
        output.say(str(wrong))
        return 2
    except ConfigProblems as problems:
        output.report(problems.diagnostics)
        return 1
    except ZerocfgError as why:
        output.say(f"{target} cannot be traced: {why}")
        return 1
    finally:
        sys.path.remove(os.getcwd())
    if as_json:
        output.product_json(as_dict(trace))
    else:
        output.product("\n".join(report(trace)))
    if out is not None:
        try:
            Path(out).write_text(json.dumps(as_profile(trace)) + "\n", encoding="utf-8")
        except OSError as problem:
            output.say(f"--out {out}: {problem.strerror or problem}")
            return 1
        output.say(f"written to {out}: give {pasted('model.profile', out)} to zerocfg plan, memory, check and to the script itself")
    return 0


def inputs_of(text: str | None) -> Inputs | None:
    if text is None:
        return None
    if not (shape := re.fullmatch(r"(\d+)(?:x(\d+))?", text)):
        return load(text)
    length, vocabulary = int(shape[1]), int(shape[2] or 0)
    if not length or not vocabulary:
        raise WrongTarget(f"--input {text} is not LENGTHxVOCABULARY, as in 2048x32000")
    return causal_lm_inputs(length, vocabulary)


def _of_script(script: Path, overrides: Sequence[str], inputs: Inputs | None) -> ActivationTrace:
    if not script.is_file():
        raise WrongTarget(f"there is no {script}")
    from zerocfg.profile.script import trace_script

    try:
        return trace_script(script, overrides, inputs)
    except SystemExit as end:
        raise CannotTrace("the script ended before it built its model; what it said is above") from end


class WrongTarget(Exception):
    """Not module:function, or nothing there."""


def load(target: str) -> Callable[..., Any]:
    """The function that module:function names, from the current folder too. Raises WrongTarget."""
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
    plain = {name: value for name, value in dataclasses.asdict(trace).items() if name != "parameters"}
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
    unit = "token" if trace.tokens > 1 else "sample"
    yield f"{f'FLOPs a {unit}':22}{trace.flops_per_token:.4g}, forward and backward"
    blocks = f"{trace.num_blocks} x {', '.join(trace.block_classes)}" if trace.block_classes else "none found"
    yield f"repeated block        {blocks}"
    yield ""
    yield f"activations a sample{f' of {trace.tokens} tokens' if trace.tokens > 1 else ''}, {trace.dtype}"
    yield f"  one block keeps     {human_bytes(trace.block_saved)}; with activation checkpointing {human_bytes(trace.block_input)}"
    yield f"  all that is kept    {human_bytes(per_sample(trace))}"
    yield f"  loss, at its most   {human_bytes(trace.loss_backward)}"
    if trace.block_classes:
        yield ""
        yield "stage 3 fetches a repeated block at a time (parallelism.leaf_module_classes=null finds it)"
