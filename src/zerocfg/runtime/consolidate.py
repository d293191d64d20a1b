"""One file of whole weights out of a checkpoint that is cut over ranks."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from zerocfg.diagnostics import ConfigProblems, Diagnostic
from zerocfg.runtime import checkpoint_files as files
from zerocfg.runtime.checkpoint_check import damage
from zerocfg.runtime.checkpoint_save import rank_file
from zerocfg.runtime.checkpoint_stage0 import MODEL, masters_of
from zerocfg.units import human_bytes, human_count

SAFETENSORS, TORCH = "model.safetensors", "pytorch_model.bin"
RECORD = "zerocfg_weights.json"
FOLDER = "weights"
"""Below the job's folder."""


def consolidate(checkpoint: files.Checkpoint, out: Path, *, dtype: str = "fp32", safetensors: bool = True, verify: bool = True) -> str:
    """Write `out`/model.safetensors (or pytorch_model.bin) and a record of where it comes from; returns a line about it.

    dtype: fp32 as the optimizer keeps them, or bf16. Any ZeRO stage, without tensor parallelism. Tied weights are written under each
    of their names. An earlier file of that name is replaced only when it came from this function. verify: look at the checksums first,
    which torch does not; files that were written just now need none. Raises ConfigProblems: ZC776 the
    checkpoint does not give whole weights, ZC777 the target cannot be written.
    """
    import torch

    degree = checkpoint.plan["topology"]["tensor_parallel_degree"]
    if degree > 1:
        raise ConfigProblems([_unreadable(checkpoint, f"its weights are cut over {degree} tensor-parallel ranks")])
    try:
        if verify and (why := damage(checkpoint, rank=0, world_size=1)):
            raise ConfigProblems([_unreadable(checkpoint, why)])
        state = _weights(checkpoint)
    except ConfigProblems:
        raise
    except Exception as problem:  # whatever torch and DeepSpeed make of a file that is missing or no checkpoint
        raise ConfigProblems([_unreadable(checkpoint, f"{type(problem).__name__}: {problem}".splitlines()[0])]) from problem
    wanted = {"fp32": torch.float32, "bf16": torch.bfloat16}[dtype]
    state = {name: value.to(wanted) if value.is_floating_point() else value for name, value in state.items()}
    name = SAFETENSORS if safetensors else TORCH
    target = out / name
    if problems := list(check_target(out, name)):
        raise ConfigProblems(problems)
    size = sum(value.numel() * value.element_size() for value in state.values())
    draft = out / f".{name}.{os.getpid()}"
    try:
        out.mkdir(parents=True, exist_ok=True)
        _write(state, draft, safetensors=safetensors)
        files.sync_file(draft)
        draft.replace(target)
        record = {"checkpoint": str(checkpoint.path), "step": checkpoint.step, "dtype": dtype, "file": name}
        files.write_through(out / RECORD, json.dumps(record, indent=2) + "\n")
    except Exception as problem:  # safetensors and torch have errors of their own for a full disk
        why = (problem.strerror if isinstance(problem, OSError) else "") or str(problem).partition("\n")[0]
        free = f"{human_bytes(shutil.disk_usage(out).free)} were free" if out.is_dir() else "there is no such folder"
        with contextlib.suppress(OSError):
            draft.unlink()
        text = f"{target} cannot be written: {why} (needs {human_bytes(size)}, {free})"
        raise ConfigProblems([_unwritable(text, "--out, a folder with room that you may write")]) from None
    elements = sum(value.numel() for value in state.values())
    return f"weights of step {checkpoint.step}: {human_count(elements)} elements in {dtype}, {human_bytes(size)}: {target}"


def check_target(out: Path, name: str = SAFETENSORS) -> Iterator[Diagnostic]:
    """ZC777 where a file of that name is not this program's to replace."""
    if (out / name).exists() and not (out / RECORD).exists():
        yield _unwritable(f"{out / name} exists, and another program wrote it", "rename it; or --out, another folder")


def _weights(checkpoint: files.Checkpoint) -> dict[str, Any]:
    """Name -> whole tensor on the CPU: fp32 for what the optimizer holds."""
    if checkpoint.plan["zero"]["stage"] == 0:
        return _of_stage_0(checkpoint)
    import torch

    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):  # progress bars, words on GPUs
        from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint

        state = get_fp32_state_dict_from_zero_checkpoint(str(checkpoint.path.parent), tag=checkpoint.path.name)
    if checkpoint.plan["zero"]["stage"] < 3:
        # zero_to_fp32 leaves out stage 1's frozen weights, which only the model's own state has
        saved = torch.load(checkpoint.path / MODEL, map_location="cpu", weights_only=False, mmap=True)["module"]
        state |= {name: value.float() if value.is_floating_point() else value for name, value in saved.items() if name not in state}
    return {name: value.contiguous() for name, value in state.items()}


def _of_stage_0(checkpoint: files.Checkpoint) -> dict[str, Any]:
    """Every rank holds everything, in the model's dtype; in 16 bits the optimizer's wrapper holds the fp32 copies."""
    import torch

    saved = torch.load(checkpoint.path / MODEL, map_location="cpu", weights_only=False)
    weights: dict[str, Any] = saved["module"]
    groups = torch.load(checkpoint.path / rank_file(0), map_location="cpu", weights_only=False).get("masters", [])
    masters = masters_of(saved, groups)
    # tied weights share their memory in the file too, and the optimizer knows them by one name
    by_memory = {weights[name].data_ptr(): copy for name, copy in masters.items()}
    return {name: by_memory.get(value.data_ptr(), value).clone() for name, value in weights.items()}


def _write(state: dict[str, Any], path: Path, *, safetensors: bool) -> None:
    if not safetensors:
        import torch

        torch.save(state, path)
        return
    from safetensors.torch import save_file

    # the format has no shared tensors: each name gets its own copy
    seen: set[int] = set()
    own = {}
    for name, value in state.items():
        own[name] = value.clone() if value.data_ptr() in seen else value
        seen.add(value.data_ptr())
    save_file(own, path, metadata={"format": "pt"})


def _unreadable(checkpoint: files.Checkpoint, why: str) -> Diagnostic:
    return Diagnostic(
        code="ZC776",
        message=f"the checkpoint of step {checkpoint.step} does not give whole weights: {why}",
        detail=(str(checkpoint.path),),
        hint="another checkpoint of this run: --tag",
    )


def _unwritable(message: str, hint: str) -> Diagnostic:
    return Diagnostic(code="ZC777", message=message, hint=hint)
