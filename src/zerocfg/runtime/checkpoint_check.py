"""What sizes of files do not show: contents that have changed since they were written, and weights of another model."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from typing import Any

from zerocfg.diagnostics import ConfigProblems, Diagnostic
from zerocfg.runtime.checkpoint_files import Checkpoint
from zerocfg.runtime.engine import family


def damage(checkpoint: Checkpoint, *, rank: int, world_size: int) -> str:
    """What is wrong with this rank's share of the files, read whole; empty: nothing.

    torch.load does not look at the checksums that torch.save writes (its miniz is built without), and gives damaged weights. It looks
    at other places than zipfile for where things are, so it has to open the file as well: mapped, without reading it once more.
    """
    import torch

    names = sorted(name for name in checkpoint.manifest["files"] if name.endswith(".pt"))
    for name in names[rank::world_size]:
        try:
            with zipfile.ZipFile(checkpoint.path / name) as archive:
                part = archive.testzip()
            if part is None:
                reader = torch._C.PyTorchFileReader(str(checkpoint.path / name))
                for record in reader.get_all_records():
                    reader.get_record_offset(record)
        except Exception as problem:  # whatever zipfile, pickle and torch make of it
            return f"{name} cannot be read: {str(problem).partition(chr(10))[0]}"
        if part is not None:
            return f"{name} is damaged: the checksum of {part} is wrong"
    return ""


def parameters_of(engine: Any) -> dict[str, list[int]]:
    """Name and whole shape of each parameter of a live model, for the manifest; a tensor-parallel rank's own part."""
    return {name: list(getattr(weight, "ds_shape", weight.shape)) for name, weight in engine.module.named_parameters()}


def optimizer_of(engine: Any) -> str:
    """Family of the live optimizer (adam: whichever of torch's and DeepSpeed's), for the manifest; empty without one."""
    return family(type(engine.basic_optimizer).__name__) if engine.basic_optimizer is not None else ""


def check_model(checkpoint: Checkpoint, engine: Any) -> None:
    """Raises ConfigProblems (ZC771) that names the first parameter in which the model differs from the one that was saved, or the
    optimizer where the script's own has become another one."""
    saved: Mapping[str, Any] | None = checkpoint.manifest.get("parameters")
    if saved is None:
        return  # of an earlier release
    now = parameters_of(engine)
    found = next((name for name in (*now, *saved) if saved.get(name) != now.get(name)), None)
    if found is not None:
        others = sum(saved.get(name) != now.get(name) for name in {*now, *saved}) - 1
        then, here = (f"has shape {tuple(side[found])}" if found in side else "does not exist" for side in (saved, now))
        more = f", and {others} more parameters differ" if others else ""
        raise ConfigProblems(
            [_another_model(checkpoint, f"of another model: {found} {then} there and {here} in this model{more}", "model")]
        )
    was, becomes = checkpoint.manifest.get("optimizer"), optimizer_of(engine)
    if was is not None and was != becomes:
        why = f"of another optimizer: {was or 'none'} there, {becomes or 'none'} here"
        raise ConfigProblems([_another_model(checkpoint, why, "optimizer")])


def _another_model(checkpoint: Checkpoint, why: str, what: str) -> Diagnostic:
    return Diagnostic(
        code="ZC771",
        path="checkpoint.resume",
        message=f"the checkpoint of step {checkpoint.step} is {why}",
        detail=(str(checkpoint.path),),
        hint=f"the {what} that it was saved with; or checkpoint.resume=never to start anew",
    )
