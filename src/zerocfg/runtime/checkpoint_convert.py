"""A checkpoint for another number of ranks, stage or precision: DeepSpeed's universal format, and what that leaves out.

ds_to_universal.py of DeepSpeed 0.19.8 cuts optimizer states and fp32 weights loose from the ranks. Beside that, this module
- lets stage 3 become stage 2 and the reverse: files of metadata under the names of both (mp_rank_00_..., zero_pp_rank_0_mp_rank_00_...),
  weights and the optimizer's global state as either reads them (universal_checkpoint.py:242, stage3.py:3653);
- takes stage 0 in and gives it out (checkpoint_stage0.py);
- keeps buffers and frozen weights, which a universal load passes over (engine.py:4660);
- gives each parameter group its own settings back, and each sub-group a step count of its own: stage 3 lays the first group's over
  all, and one tensor under all sub-groups, which torch's Adam would then count up once for each (stage3.py:3681-3691).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from zerocfg.diagnostics import ConfigProblems, Diagnostic
from zerocfg.runtime import checkpoint_files as files
from zerocfg.runtime.checkpoint_stage0 import load_universal, to_universal
from zerocfg.units import human_bytes

_REST = "zerocfg_rest.pt"
"""Buffers and frozen weights by name."""
_DONE = "zerocfg_done"
OPTIMIZER_STATES = "_optim_states.pt"
"""End of the names of ZeRO's files of states; there are none at stage 0."""
_RANK_VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def convert(source: Path, target: Path) -> Path:
    """Convert the checkpoint in `source` for a run of any shape; returns `target`. A finished conversion is used again.

    Runs in a process of its own, on the CPU. Raises ConfigProblems (ZC776) with the converter's last words.
    """
    if (target / _DONE).exists():
        return target
    shutil.rmtree(target, ignore_errors=True)
    if problems := list(check_room(source, target)):
        raise ConfigProblems(problems)
    environment = {name: value for name, value in os.environ.items() if name not in _RANK_VARIABLES}
    environment |= {"CUDA_VISIBLE_DEVICES": "", "DS_ACCELERATOR": "cpu"}
    command = [sys.executable, "-m", "zerocfg.runtime.checkpoint_convert", str(source), str(target)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        shutil.rmtree(target, ignore_errors=True)
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        raise ConfigProblems([_not_converted(source, lines[-5:] or [f"exit status {done.returncode}"])])
    return target


def target_in(own: Path, source: Path) -> Path:
    """Where a run converts a checkpoint, beside its own ones."""
    return own / f"{files.CONVERTED}{source.name}"


def check_room(source: Path, target: Path) -> Iterator[Diagnostic]:
    """ZC776 where the disk of `target` has no room for a conversion of `source`. Makes nothing.

    DeepSpeed cuts all fp32 weights and moments into files of slices, and joins them to other files before it drops those (measured:
    2.0 times the optimizer's states). Stage 0 is converted without.
    """
    if (target / _DONE).exists():
        return
    sizes = {path.name: path.stat().st_size for path in source.iterdir() if path.is_file()}
    needed = 2 * sum(size for name, size in sizes.items() if name.endswith(OPTIMIZER_STATES)) or sum(sizes.values())
    there = next(path for path in target.absolute().parents if path.is_dir())
    free = shutil.disk_usage(there).free
    if free < needed:
        yield Diagnostic(
            code="ZC776",
            path="checkpoint.directory",
            message=f"no room to convert {source}: that takes about {human_bytes(needed)}, {human_bytes(free)} are free in {there}",
            hint="checkpoint.directory=FOLDER on another disk; or the number of ranks, stage and precision that it was saved with",
        )


def _not_converted(source: Path, words: list[str]) -> Diagnostic:
    return Diagnostic(
        code="ZC776",
        path="checkpoint.resume",
        message=f"{source} could not be converted: {words[-1]}",
        detail=tuple(words[:-1]),
        hint="resume on the number of ranks and at the stage that it was saved with, or checkpoint.resume=never",
    )


def load_converted(engine: Any, folder: Path, stage: int, *, keep_loss_scale: bool) -> None:
    """All ranks: the state of a conversion into a fresh engine of `stage`. keep_loss_scale: the checkpoint's, if it has one."""
    if stage == 0:
        load_universal(engine, folder)
    else:
        own = {name: getattr(engine.optimizer, name) for name in ("loss_scaler", "dynamic_loss_scale")}
        _load_sharded(engine, folder, stage)
        if not keep_loss_scale:
            for name, value in own.items():
                setattr(engine.optimizer, name, value)
    _load_rest(engine, folder)


def _load_sharded(engine: Any, folder: Path, stage: int) -> None:
    config = engine._config
    before = config.load_universal_checkpoint
    config.load_universal_checkpoint = True
    try:
        engine.load_checkpoint(str(folder.parent), tag=folder.name)
    finally:
        config.load_universal_checkpoint = before
    _give_back_groups(engine, folder, stage)


def _give_back_groups(engine: Any, folder: Path, stage: int) -> None:
    import torch

    saved = torch.load(folder / "zero" / "optimizer_state.pt", map_location="cpu", weights_only=False)["param_groups"]
    inner = engine.optimizer.optimizer
    if len(saved) == len(inner.param_groups):
        for group, settings in zip(inner.param_groups, saved, strict=True):
            group.update({name: value for name, value in settings.items() if name != "params"})
    if stage == 3:
        for state in inner.state.values():
            if torch.is_tensor(state.get("step")):
                state["step"] = state["step"].clone()


def _load_rest(engine: Any, folder: Path) -> None:
    import deepspeed
    import torch

    rest = torch.load(folder / _REST, map_location="cpu", weights_only=False)
    for name, value in engine.module.named_buffers():
        if name in rest:
            value.data.copy_(rest[name])
    frozen = [(name, weight) for name, weight in engine.module.named_parameters() if name in rest and not weight.requires_grad]
    if not frozen:
        return
    with deepspeed.zero.GatheredParameters([weight for _, weight in frozen], modifier_rank=0), torch.no_grad():
        for name, weight in frozen:
            if weight.shape == rest[name].shape:  # elsewhere than on rank 0 of stage 3 it may not be gathered
                weight.copy_(rest[name])


# What follows runs in the process that `convert` starts.


def main(words: Sequence[str]) -> int:
    source, target = Path(words[0]), Path(words[1])
    target.mkdir(parents=True)
    if next(source.glob(f"*{OPTIMIZER_STATES}"), None) is None:
        _for_both_families(source, target, to_universal(source, target))
    else:
        _to_universal(source, target)
        _for_both_families(source, target)
        _optimizer_state(target)
    for path in target.rglob("*"):
        if path.is_file():
            files.sync_file(path)
    files.write_through(target / _DONE, "")
    files.sync_directory(target)
    return 0


def _to_universal(source: Path, target: Path) -> None:
    import torch
    from deepspeed.checkpoint import ds_to_universal

    # DeepSpeed would write each weight that is not the optimizer's with all the memory that it is a view into
    for path in source.glob("mp_rank_*_model_states.pt"):
        for name, value in _others(torch.load(path, map_location="cpu", weights_only=False)).items():
            folder = target / "zero" / name
            folder.mkdir(parents=True, exist_ok=True)
            torch.save({"param": value.float()}, folder / "fp32.pt")
    ds_to_universal.main(
        SimpleNamespace(
            input_folder=str(source),
            output_folder=str(target),
            num_extract_workers=1,
            num_merge_workers=1,
            keep_temp_folder=False,
            strict=True,
            inject_missing_state=True,
        )
    )
    (target.parent / "latest_universal").unlink(missing_ok=True)


def _for_both_families(source: Path, target: Path, shapes: list[dict[str, Any]] | None = None) -> None:
    """shapes: of each parameter group's weights, where the checkpoint does not have them itself."""
    import torch

    for copied in target.glob("*_model_states.pt"):
        copied.unlink()
    shards = sorted(source.glob("*mp_rank_*_model_states.pt"), key=_data_parallel_rank)
    firsts = [path for path in shards if _data_parallel_rank(path) == 0]
    rest: dict[str, Any] = {}
    for path in firsts:
        state = torch.load(path, map_location="cpu", weights_only=False)
        state["param_shapes"] = shapes or state.get("param_shapes") or []
        rest |= _others(state)
        light = {name: value for name, value in state.items() if name not in ("module", "optimizer", "frozen_param_fragments")}
        model_parallel = path.name.partition("mp_rank_")[2]
        for name in (f"mp_rank_{model_parallel}", f"zero_pp_rank_0_mp_rank_{model_parallel}"):
            torch.save({**light, "module": {}, "optimizer": None}, target / name)
        _with_shapes(target / "zero", state["param_shapes"])
    rest |= _frozen(shards)
    torch.save(rest, target / _REST)


def _others(state: dict[str, Any]) -> dict[str, Any]:
    """What a file of the model holds beside the optimizer's weights, in memory of its own: buffers, frozen weights, second names.

    Stages 1 and 2 have all weights there, and stage 1 has the frozen ones nowhere else; stage 3 has buffers alone.
    """
    import torch

    trained = {name for group in state.get("param_shapes") or () for name in group}
    others = {name: value for name, value in (state["module"] or {}).items() if name not in trained}
    return {name: value.clone() for name, value in others.items() if torch.is_tensor(value) and value.numel()}


def _with_shapes(zero: Path, groups: Sequence[Any]) -> None:
    """Stage 3's weights come out flat and bare; stages 1 and 2 read {"param": tensor} and its shape, stage 3 reads that as well."""
    import torch

    for name, shape in (item for group in groups for item in group.items()):
        for path in (zero / name).glob("*.pt"):
            value = torch.load(path, map_location="cpu", weights_only=False)
            if torch.is_tensor(value) and path.stem != "step":
                torch.save({"param": value.reshape(tuple(shape))}, path)


def _data_parallel_rank(path: Path) -> int:
    """zero_pp_rank_3_mp_rank_00_model_states.pt -> 3; mp_rank_00_model_states.pt, of stages 1 and 2, -> 0."""
    before, found, _ = path.name.partition("_mp_rank_")
    return int(before.rpartition("_")[2]) if found and "zero_pp_rank_" in before else 0


def _frozen(shards: list[Path]) -> dict[str, Any]:
    """Frozen weights, whole: stages 1 and 2 save them so, stage 3 in flat parts, the last padded."""
    import torch

    parts: dict[str, list[Any]] = {}
    shapes: dict[str, Any] = {}
    for path in shards:
        state = torch.load(path, map_location="cpu", weights_only=False)
        shapes |= state.get("frozen_param_shapes") or {}
        for name, part in (state.get("frozen_param_fragments") or {}).items():
            parts.setdefault(name, []).append(part)
    whole = {}
    for name, found in parts.items():
        shape = tuple(shapes[name])
        if found[0].shape == shape:
            whole[name] = found[0]
        else:
            flat = torch.cat([part.flatten() for part in found])
            whole[name] = flat[: torch.Size(shape).numel()].reshape(shape)
    return whole


def _optimizer_state(target: Path) -> None:
    """As stages 1 and 2 read it (param_groups, ds_version, a step beside each weight), and as stage 3 does (below optimizer_state_dict)."""
    import deepspeed
    import torch

    zero = target / "zero"
    state = torch.load(zero / "optimizer_state.pt", map_location="cpu", weights_only=False)
    of_stage_3 = state.pop("optimizer_state_dict", None)
    state.pop("fp32_flat_groups", None)
    weights = sorted(path.parent for path in zero.rglob("exp_avg.pt"))
    if of_stage_3 is not None:
        step = next(iter(of_stage_3["state"].values()))["step"]
        for weight in weights:
            torch.save(step, weight / "step.pt")
    else:
        step = torch.load(weights[0] / "step.pt", map_location="cpu", weights_only=False)
    state.setdefault("ds_version", deepspeed.__version__)
    state["optimizer_state_dict"] = {"state": {0: {"step": step}}, "param_groups": state["param_groups"]}
    torch.save(state, zero / "optimizer_state.pt")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
