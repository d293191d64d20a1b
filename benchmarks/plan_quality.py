"""How good the planner's first choice is: a small grid measured as a whole, its predictions beside.

`python benchmarks/plan_quality.py [--gpus 2] [--hardware h200x2] [--models gpt_1b3,llama_1b] [overrides]`: one plan after the other,
each in fresh processes. The grid holds the planner's first choice of each kind; its first choice of all must reach 0.95 of the fastest.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from typing import Any

from many_engines import ROOT, run_all, task_of

TARGET = 0.95
MODELS: dict[str, tuple[str, ...]] = {
    "gpt_1b3": ("model=gpt_1b3",),
    # the dims of Llama 3.2 1B at half the depth: grouped-query attention, SwiGLU, a vocabulary of 128256
    "llama_1b": (
        "model=llama3_8b",
        "model.name=llama_1b",
        "model.num_hidden_layers=8",
        "model.hidden_size=2048",
        "model.num_attention_heads=32",
        "model.num_key_value_heads=8",
        "model.intermediate_size=8192",
        "model.sequence_length=2048",
    ),
    "gpt_tiny": ("model=gpt_tiny",),
}
GRID: tuple[tuple[str, ...], ...] = tuple(
    (f"parallelism={stage}", f"offload={offload}", f"activation_checkpointing={recompute}", f"batch.micro_batch_size={micro}")
    for stage, offload, recompute, micro in (
        ("ddp", "none", "none", 4),
        ("zero1", "none", "none", 4),
        ("zero1", "none", "none", 8),
        ("zero1", "none", "none", 16),
        ("zero2", "none", "none", 16),
        ("zero2", "none", "full", 16),
        ("zero3", "none", "none", 4),
        ("zero3", "none", "none", 8),
        ("zero3", "none", "none", 16),
        ("zero3", "none", "full", 16),
    )
)
"""With a global batch of 32 on two GPUs; the planner's own ranking adds to it. Offload is left out: a step takes seconds."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--hardware", default="h200x2")
    parser.add_argument("--models", default="gpt_1b3,llama_1b")
    parser.add_argument("--global-batch", type=int, default=32)
    parser.add_argument("--alone", action="store_true", help="one GPU: rank 0 of --gpus, with collectives that end at once")
    parser.add_argument("--timeout", type=float, default=90, help="seconds a plan")
    parser.add_argument("--dry-run", action="store_true", help="predictions only")
    parser.add_argument("overrides", nargs="*", default=[])
    given = parser.parse_args()
    ok = True
    for model in given.models.split(","):
        base = [f"hardware={given.hardware}", f"hardware.gpus_per_node={given.gpus}", *MODELS[model]]
        base += [f"batch.global_batch_size={given.global_batch}", *given.overrides]
        ok = one(model, base, given) and ok
    return 0 if ok else 1


def one(model: str, base: Sequence[str], given: argparse.Namespace) -> bool:
    from zerocfg.diagnostics import ConfigProblems

    first = planned(base)
    tasks, names, predicted = [], [], []
    for overrides in dict.fromkeys([*first, *GRID]):
        try:
            task = task_of([*base, *overrides])
        except ConfigProblems:
            continue  # does not fit, or does not divide
        if any(same(task, other) for other in tasks):
            continue
        tasks.append(task)
        names.append(" ".join(part.split("=")[-1] for part in overrides if "gradient_accumulation" not in part))
        predicted.append(prediction([*base, *overrides]))
    if not tasks:
        print(f"{model}: no plan compiles: zerocfg check {' '.join(base)}")
        return False
    results: list[dict[str, Any]] = [{} for _ in tasks]
    if not given.dry_run:
        results = list(run_all(tasks, given.gpus, given.timeout, given.alone))
    speeds = [float(r.get("tokens_per_s_per_gpu", 0.0)) for r in results]
    best = max(speeds, default=0.0)
    print(f"\n{model}: {len(tasks)} plans, global batch {given.global_batch}, {given.gpus} GPUs; tokens/s a GPU")
    print(f"{'plan (the first: the choice)':62}{'predicted':>11}{'measured':>11}{'error':>8}{'of best':>9}{'GiB':>7}{'s':>6}")
    errors = []
    for name, guess, speed, result in zip(names, predicted, speeds, results, strict=True):
        if speed:
            errors.append(abs(guess / speed - 1))
            measured = (
                f"{speed:>11,.0f}{guess / speed - 1:>+8.0%}{speed / best:>9.2f}{result['allocated'] / 2**30:>7.1f}{result['seconds']:>6.1f}"
            )
        else:
            measured = f"  {str(result.get('problem', ''))[-200:]}"
        print(f"{name[:61]:62}{guess:>11,.0f}{measured}")
    if not errors:
        return given.dry_run
    reached = speeds[0] / best
    error = statistics.median(errors)
    print(f"the planner's choice reaches {reached:.2f} of the best (target {TARGET}); median error of the speed {error:.0%}")
    return reached >= TARGET


def same(one: dict[str, object], other: dict[str, object]) -> bool:
    return all(one[key] == other[key] for key in ("deepspeed", "checkpointing", "leaf"))


def _config(overrides: Sequence[str]):  # type: ignore[no-untyped-def]
    from zerocfg.compose import compose
    from zerocfg.schema.load import load

    return load(compose(list(overrides), config_path=str(ROOT / "conf"), config_name="zerocfg").container)[0]


def planned(base: Sequence[str]) -> list[tuple[str, ...]]:
    """The planner's ranking, the best micro batch of each kind, offload left out."""
    from zerocfg.planner.rank import search
    from zerocfg.planner.space import Axes

    ranked = search(_config(base), None, Axes()).ranked
    return [found.overrides for found in ranked if found.plan.offload.optimizer == "none"][:6]


def prediction(overrides: Sequence[str]) -> float:
    from zerocfg.compiler import resolve
    from zerocfg.planner.cost import cost_of
    from zerocfg.planner.rates import rates_of

    plan = resolve(_config(overrides), None)[0]
    return cost_of(plan, rates_of(plan.hardware)).tokens_per_s_per_gpu()


if __name__ == "__main__":
    sys.exit(main())
