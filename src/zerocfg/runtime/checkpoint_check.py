"""What sizes of files do not show: contents that have changed since they were written, and weights of another model."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zerocfg.diagnostics import ConfigProblems, Diagnostic
from zerocfg.runtime.checkpoint_files import Checkpoint


def damage(checkpoint: Checkpoint, *, rank: int, world_size: int) -> str:
    """What is wrong with this rank's share of the files, read whole; empty: nothing.

    torch.load does not look at the checksums that torch.save writes (its miniz is built without), and gives damaged weights.
    """
    names = sorted(name for name in checkpoint.manifest["files"] if name.endswith(".pt"))
    for name in names[rank::world_size]:
        try:
            with zipfile.ZipFile(checkpoint.path / name) as archive:
                part = archive.testzip()
        except (OSError, zipfile.BadZipFile, zlib.error, NotImplementedError) as problem:
            return f"{name} cannot be read: {problem}"
        if part is not None:
            return f"{name} is damaged: the checksum of {part} is wrong"
    return ""


def parameters_of(engine: Any) -> dict[str, list[int]]:
    """Name and whole shape of each parameter of a live model, for the manifest; a tensor-parallel rank's own part."""
    return {name: list(getattr(weight, "ds_shape", weight.shape)) for name, weight in engine.module.named_parameters()}


def check_model(checkpoint: Checkpoint, engine: Any) -> None:
    """Raises ConfigProblems (ZC771) that names the first parameter in which the model differs from the one that was saved."""
    saved: Mapping[str, Any] | None = checkpoint.manifest.get("parameters")
    if saved is None:
        return  # of an earlier release
    now = parameters_of(engine)
    found = next((name for name in (*now, *saved) if saved.get(name) != now.get(name)), None)
    if found is None:
        return
    others = sum(saved.get(name) != now.get(name) for name in {*now, *saved}) - 1
    then, here = (f"has shape {tuple(side[found])}" if found in side else "does not exist" for side in (saved, now))
    more = f", and {others} more parameters differ" if others else ""
    raise ConfigProblems([_another_model(checkpoint.step, checkpoint.path, f"{found} {then} there and {here} in this model{more}")])


def _another_model(step: int, path: Path, why: str) -> Diagnostic:
    return Diagnostic(
        code="ZC771",
        path="checkpoint.resume",
        message=f"the checkpoint of step {step} is of another model: {why}",
        detail=(str(path),),
        hint="the model that it was saved with; or checkpoint.resume=never to start anew",
    )
