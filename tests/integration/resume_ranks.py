"""Started by test_resume.py under torchrun: small trainings on real DeepSpeed engines, one after another in the same processes.

python -m tests.integration.resume_ranks ROOT SCENARIO...
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import torch

from tests.integration.resume_model import RANK, WORLD, Model, begin, loop, make_run, train
from zerocfg.errors import Preempted
from zerocfg.launch.ending import leave
from zerocfg.runtime.checkpoint_stage0 import places
from zerocfg.runtime.checkpoint_start import locate
from zerocfg.runtime.consolidate import consolidate

warnings.filterwarnings("ignore")
MOMENTS = ("exp_avg", "exp_avg_sq")
ROOT = Path(sys.argv[1])


def whole_weights(engine: Any) -> dict[str, Any]:
    """Of the live model, on rank 0; in fp32 where the optimizer keeps that."""
    import deepspeed
    from deepspeed.utils import safe_get_full_fp32_param

    found = {}
    for name, weight in engine.module.named_parameters(remove_duplicate=False):
        precise = safe_get_full_fp32_param(weight) if engine.zero_optimization() and weight.requires_grad else None
        with deepspeed.zero.GatheredParameters([weight]):
            found[name] = (precise if precise is not None else weight).detach().clone()
    return found | {name: value.clone() for name, value in engine.module.named_buffers()}


def check_weights(engine: Any, folder: Path) -> None:
    """Consolidated weights are the live model's, bit for bit, and load into a plain model."""
    live = whole_weights(engine)
    if RANK != 0:
        return
    from safetensors.torch import load_file

    checkpoint = locate(str(folder), Path.cwd())
    for dtype, safetensors in (("fp32", True), ("bf16", False)):
        consolidate(checkpoint, folder / dtype, dtype=dtype, safetensors=safetensors)
    whole = load_file(folder / "fp32/model.safetensors")
    assert set(whole) == set(live), set(whole) ^ set(live)
    for name, value in live.items():
        assert torch.equal(whole[name], value), name
    Model(0.0).load_state_dict(whole)
    short = torch.load(folder / "bf16/pytorch_model.bin")
    assert all(torch.equal(short[name], value.bfloat16()) for name, value in live.items())


def exact(stage: int) -> None:
    """60 steps straight, and 30 steps, SIGUSR2, and the rest."""
    common = {"parallelism.stage": stage, "train.steps": 60}
    train(make_run(ROOT / f"straight{stage}", common))
    folder = ROOT / f"resumed{stage}"
    saving = {**common, "checkpoint.enabled": True, "checkpoint.every_steps": 20, "checkpoint.keep_last": 1}
    saving |= {"checkpoint.async_save": stage % 2 == 1, "checkpoint.consolidate_on_end": True}
    try:
        train(make_run(folder, saving), stop_after=30)
        raise AssertionError("it did not stop")
    except Preempted as end:
        (folder / f"stopped_{RANK}").write_text(f"{end.signal} {end.step}")
    check_weights(train(make_run(folder, saving)), folder)
    if RANK == 0:
        assert (folder / "weights/model.safetensors").read_bytes() == (folder / "fp32/model.safetensors").read_bytes()


def half_precision() -> None:
    """bf16 at stages 0 and 2: the fp32 copies that the optimizer holds are part of the state."""
    for stage in (0, 2):
        common = {"parallelism.stage": stage, "precision.dtype": "bf16", "train.steps": 12}
        train(make_run(ROOT / f"straight_bf16_{stage}", common))
        folder = ROOT / f"resumed_bf16_{stage}"
        saving = {**common, "checkpoint.every_steps": 7, "checkpoint.keep_last": 1}
        try:
            train(make_run(folder, saving), stop_after=7)
            raise AssertionError("it did not stop")
        except Preempted:
            pass
        engine = train(make_run(folder, saving))
        if RANK == 0:
            from safetensors.torch import load_file

            consolidate(locate(str(folder), Path.cwd()), folder / "weights")
            whole = load_file(folder / "weights/model.safetensors")
            weights = dict(engine.module.named_parameters())
            assert all(torch.equal(whole[name].bfloat16(), weight) for name, weight in weights.items())
            # the precise ones, which bf16 cannot hold
            assert all((whole[name] != weight.float()).any() for name, weight in weights.items() if weight.requires_grad)


SAVED = {"train.steps": 20, "checkpoint.every_steps": 10, "checkpoint.keep_last": 0}


def save(stage: int) -> None:
    """On this many ranks, without dropout, the same global batches on any number of ranks."""
    train(make_run(ROOT / f"saved{stage}_{WORLD}", {**SAVED, "parallelism.stage": stage}), dropout=0.0, shuffle=False)


def resume_elsewhere(source: str, stage: int, **changes: Any) -> None:
    folder = ROOT / f"{source}_to_{stage}_{WORLD}"
    begin = ROOT / source / "checkpoints/global_step10"
    run = make_run(folder, {**SAVED, "parallelism.stage": stage, "checkpoint.resume": str(begin), **changes})
    engine = train(run, dropout=0.0, shuffle=False)
    if RANK == 0:
        # one a forward pass of a rank: the buffer came along
        (folder / "calls").write_text(str(int(engine.module.calls.item())))


def damaged() -> None:
    """A byte of the newest checkpoint's last file has changed: the run goes on from the one before."""
    common = {"parallelism.stage": 2, "train.steps": 12}
    train(make_run(ROOT / "undamaged", common))
    saving = {**common, "checkpoint.every_steps": 4, "checkpoint.keep_last": 0}
    folder = ROOT / "damaged"
    train(make_run(folder, {**saving, "train.steps": 8}))
    if RANK == 0:
        path = max((folder / "checkpoints/global_step8").glob("*_optim_states.pt"))
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 0xFF
        path.write_bytes(content)
    train(make_run(folder, saving))


def whole_state(engine: Any) -> dict[str, list[Any]]:
    """Of every trained weight, on each rank: fp32 copy, both moments, Adam's count."""
    from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state

    found = {}
    if engine.zero_optimization():
        counts = {int(state["step"]) for state in engine.optimizer.optimizer.state.values()}
        for name, weight in engine.module.named_parameters():
            if weight.requires_grad:
                values = [safe_get_full_fp32_param(weight), *(safe_get_full_optimizer_state(weight, kind) for kind in MOMENTS)]
                found[name] = [
                    *(value.clone().reshape(weight.ds_shape if hasattr(weight, "ds_shape") else weight.shape) for value in values)
                ]
    else:
        counts = set()
        for place in places(engine):
            state = place.optimizer.state[place.holder]
            moments = [state[kind].view(-1).narrow(0, place.offset, place.weight.numel()) for kind in MOMENTS]
            found[place.name] = [value.clone().reshape(place.weight.shape) for value in (place.master, *moments)]
            counts.add(int(state["step"]))
            assert torch.equal(place.weight, found[place.name][0].to(place.weight.dtype)), place.name
    (count,) = counts
    return {name: [*values, count] for name, values in found.items()}


def carry(stage: int, dtype: str, *targets: tuple[int, str]) -> None:
    """Save, and begin at other stages and in other precisions: the state is the same, bit for bit, and training goes on with it."""
    base = {"train.steps": 8, "checkpoint.every_steps": 6, "checkpoint.keep_last": 0}
    source = ROOT / f"carried_{stage}_{dtype}"
    first = {"parallelism.stage": stage, "precision.dtype": dtype}
    state = whole_state(train(make_run(source, {**base, **first, "train.steps": 6}), dropout=0.0, shuffle=False))
    train(make_run(source, {**base, **first}), dropout=0.0, shuffle=False)
    for new_stage, new_dtype in targets:
        folder = ROOT / f"carried_{stage}_{dtype}_to_{new_stage}_{new_dtype}"
        changes = {"parallelism.stage": new_stage, "precision.dtype": new_dtype}
        run = make_run(folder, {**base, **changes, "checkpoint.resume": str(source / "checkpoints/global_step6")})
        engine = begin(run, dropout=0.0, shuffle=False)
        found = whole_state(engine)
        assert set(found) == set(state), set(found) ^ set(state)
        for name, (*values, count) in state.items():
            *there, counted = found[name]
            assert counted == count == 6, (folder, name, count, counted)
            for kind, value, other in zip(("fp32", *MOMENTS), values, there, strict=True):
                assert torch.equal(value, other), (folder, name, kind)
        assert [group["weight_decay"] for group in engine.optimizer.param_groups] == [2.0, 0.0]
        loop(run, engine, shuffle=False)


def settings(stage: int) -> None:
    """The config's rate, decay and schedule hold after a resume, the same as in a run that has had them from the start."""
    base = {"parallelism.stage": stage, "train.steps": 8, "checkpoint.every_steps": 6, "checkpoint.keep_last": 0}
    schedules = {
        "none": {"scheduler.type": None, "scheduler.warmup_num_steps": None},
        "warmup": {},
        "cosine": {"scheduler.type": "WarmupCosineLR", "scheduler.warmup_num_steps": 2},
    }
    for name, schedule in schedules.items():
        train(make_run(ROOT / f"{name}{stage}", {**base, **schedule}), shuffle=False)
    for source, target in (("none", "warmup"), ("none", "cosine"), ("warmup", "cosine"), ("warmup", "none")):
        begun = {"checkpoint.resume": str(ROOT / f"{source}{stage}/checkpoints/global_step6")}
        train(make_run(ROOT / f"{source}{stage}_to_{target}", {**base, **schedules[target], **begun}), shuffle=False)
    begun = {"checkpoint.resume": str(ROOT / f"none{stage}/checkpoints/global_step6")}
    changed = {"optimizer.lr": 2e-3, "optimizer.betas": [0.5, 0.6], "parallelism.stage": stage or 1, **begun}
    engine = train(make_run(ROOT / f"changed{stage}", {**base, **schedules["none"], **changed}), shuffle=False)
    assert [(g["lr"], tuple(g["betas"]), g["weight_decay"]) for g in engine.optimizer.param_groups] == [
        (2e-3, (0.5, 0.6), 2.0),
        (2e-3, (0.5, 0.6), 0.0),
    ]


SCENARIOS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    **{f"exact{stage}": (exact, (stage,)) for stage in range(4)},
    **{f"settings{stage}": (settings, (stage,)) for stage in (0, 2, 3)},
    "half_precision": (half_precision, ()),
    "damaged": (damaged, ()),
    "save3": (save, (3,)),
    "save1": (save, (1,)),
    "3_to_2": (resume_elsewhere, ("saved3_4", 2)),
    "3_to_1": (resume_elsewhere, ("saved3_4", 1)),
    "carry3": (carry, (3, "bf16", (0, "fp32"), (1, "fp32"))),
    "carry0": (carry, (0, "bf16", (3, "fp32"))),
    "carry0_fp32": (carry, (0, "fp32", (0, "bf16"), (2, "fp32"))),
}

if __name__ == "__main__":
    for name in sys.argv[2:]:
        if name == "1_to_3":
            # several sub-groups, each with a step count of its own
            resume_elsewhere("saved1_4", 3, **{"parallelism.sub_group_size": 1000})
        else:
            scenario, arguments = SCENARIOS[name]
            scenario(*arguments)
    if RANK == 0:
        (ROOT / f"done_{WORLD}").write_text(json.dumps(sys.argv[2:]))
    leave(0)
