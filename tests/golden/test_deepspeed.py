"""DeepSpeed itself reads every golden JSON, at its world size, and understands what the plan says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zerocfg.artifact import CompiledRun
from zerocfg.lowered import flatten


@pytest.fixture(scope="module")
def understood(runs: dict[str, str], folder: Path, compile_golden: Callable[[str], CompiledRun]) -> dict[str, Any]:
    """Golden name -> what DeepSpeed's config class made of it. One process for all: importing DeepSpeed takes seconds, and its
    imports warn."""
    arguments = {}
    for name in runs:
        topology = compile_golden(name).plan.topology
        arguments[name] = f"{folder / name}.json:{topology.world_size}:{topology.data_parallel_size}"
    done = subprocess.run(
        [sys.executable, str(folder / "read_by_deepspeed.py"), *arguments.values()],
        env={**os.environ, "DS_ACCELERATOR": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    return {name: found[argument.rsplit(":", 2)[0]] for name, argument in arguments.items()}


def test_deepspeed_understands_the_plan(golden: str, understood: dict[str, Any], compile_golden: Callable[[str], CompiledRun]) -> None:
    run, read = compile_golden(golden), understood[golden]
    plan = run.plan
    batch = [plan.batch.global_batch_size, plan.batch.micro_batch_size, plan.batch.gradient_accumulation_steps]
    # with AutoTP DeepSpeed counts a sample once a tensor-parallel rank (config.py:456-475)
    counted = [batch[0] * plan.topology.tensor_parallel_degree, *batch[1:]]
    optimizer = [plan.optimizer.type.lower(), dict(plan.optimizer.params)] if plan.optimizer.type else [None, None]
    scheduler = [plan.scheduler.type, dict(plan.scheduler.params)] if plan.scheduler.type else [None, None]
    accumulate = plan.precision.grad_accum_dtype
    assert {key: read[key] for key in read if key not in ("sections", "rates", "communication", "activation_checkpointing")} == {
        "batch": counted,
        "batch_in_zero_init": batch,
        "gradient_clipping": plan.optimizer.gradient_clipping,
        "stage": plan.zero.stage,
        "fp16": plan.precision.dtype == "fp16",
        "bf16": plan.precision.dtype == "bf16",
        "optimizer": optimizer,
        "optimizer_refuses": [],
        "scheduler": scheduler,
        "offload": [plan.offload.optimizer, plan.offload.param],
        "grad_accum_dtype": None if accumulate == plan.precision.dtype else accumulate,
        "autotp_size": plan.topology.tensor_parallel_degree if plan.topology.tensor_parallel_degree > 1 else 0,
    }


def test_no_value_became_another(golden: str, understood: dict[str, Any], compile_golden: Callable[[str], CompiledRun]) -> None:
    emitted, sections = compile_golden(golden).deepspeed, understood[golden]["sections"]
    sections["activation_checkpointing"] = understood[golden]["activation_checkpointing"]
    checked = {name: emitted[name] for name in sections if name in emitted}
    assert {"zero_optimization"} <= set(checked)
    differing = {
        path: (value, _at(sections, path))
        for path, value in flatten(checked)
        if (value, type(value)) != (_at(sections, path), _type(sections, path))
    }
    assert differing == {}


def test_gradients_are_reduced_in_the_planned_type(
    golden: str, understood: dict[str, Any], compile_golden: Callable[[str], CompiledRun]
) -> None:
    plan = compile_golden(golden).plan
    names = {"fp32": "torch.float32", "fp16": "torch.float16", "bf16": "torch.bfloat16"}
    plain, sequence = understood[golden]["communication"]
    wanted = names[plan.precision.communication_data_type]
    # None is the model's own type (engine.py:1785)
    used = sequence if plan.topology.sequence_parallel_degree > 1 else names[plan.precision.dtype] if plain == "None" else plain
    assert used == wanted


@pytest.mark.parametrize(
    ("name", "rates"),
    [
        ("zero3_fp16_offload", [0.0, 2e-5, 2e-5]),
        ("zero2_two_nodes", [0.0, 3e-4, 0.0]),
        ("zero1_fp32_accumulation", [0.0, 1e-4, 1e-5]),
        ("ddp_lamb", [1e-4, 1e-3, 1e-4]),
        ("muon", [0.0, 3e-4, 3e-5]),
    ],
)
def test_the_schedule_rises_to_the_optimizer_s_rate_and_ends_where_it_should(
    name: str, rates: list[float], understood: dict[str, Any]
) -> None:
    assert understood[name]["rates"] == pytest.approx(rates, abs=1e-7, rel=2e-2)


def _at(tree: dict[str, Any], path: str) -> Any:
    node: Any = tree
    for part in path.split("."):
        node = node[part]
    return node


def _type(tree: dict[str, Any], path: str) -> type:
    return type(_at(tree, path))
