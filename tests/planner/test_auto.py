"""auto on whatever a user may have: it compiles, fits, divides, and no neighbour that fits is faster; or it says why not."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.composing import container_of
from zerocfg.compiler import Outcome, examine, resolve
from zerocfg.compose import compose
from zerocfg.confsource import conf_dir
from zerocfg.diagnostics import has_errors
from zerocfg.memory import estimate
from zerocfg.memory.check import check_memory
from zerocfg.passes.check import check_plan
from zerocfg.plan import Plan
from zerocfg.planner import decide
from zerocfg.planner.cost import cost_of
from zerocfg.planner.rates import rates_of
from zerocfg.schema.load import load

AUTO = ("parallelism=auto", "offload=auto", "activation_checkpointing=auto", "batch.micro_batch_size=auto")
MODELS = sorted(p.stem for p in Path(conf_dir(), "model").glob("*.yaml"))
HARDWARE = sorted(p.stem for p in Path(conf_dir(), "hardware").glob("*.yaml") if p.stem not in ("auto", "cpu"))
SPEED = 1.01
"""A neighbour may be this much faster: of choices that are as good as the same the one that moves and recomputes less is taken."""


def run(*overrides: str) -> Outcome:
    composed = compose(list(overrides))
    assert composed.diagnostics == []
    return examine(composed.container, origins=composed.origins, decide=decide)


def speed(plan: Plan) -> float:
    return cost_of(plan, rates_of(plan.hardware)).tokens_per_s_per_gpu(plan.topology.tensor_parallel_degree)


def neighbour(base: list[str], chosen: Plan, *changes: str) -> Plan | None:
    """The chosen plan with these changes, where it resolves, fits and passes its checks."""
    micro = chosen.batch.micro_batch_size
    stage = f"parallelism={f'zero{chosen.zero.stage}' if chosen.zero.stage else 'ddp'}"
    moved = [f"offload.optimizer={chosen.offload.optimizer}", f"offload.param={chosen.offload.param}"]
    kept = [stage, *moved, f"activation_checkpointing.enabled={str(chosen.activation_checkpointing.enabled).lower()}"]
    config, problems = load(container_of(*base, *kept, f"batch.micro_batch_size={micro}", *changes))
    plan, _, found = resolve(config, None)
    problems = [*problems, *found, *check_plan(plan), *check_memory(plan)]
    return None if has_errors(problems) or not estimate(plan).within(plan.hardware.memory_target) else plan


@settings(max_examples=12, deadline=None)
@given(
    model=st.sampled_from([m for m in MODELS if m != "none"]),
    hardware=st.sampled_from(HARDWARE),
    nodes=st.sampled_from([1, 1, 2, 4]),
    slow=st.booleans(),
    batches=st.sampled_from([None, 1, 2, 6, 32]),
)
def test_auto_is_right_or_says_why_not(model: str, hardware: str, nodes: int, slow: bool, batches: int | None) -> None:
    base = [f"model={model}", f"hardware={hardware}", f"hardware.num_nodes={nodes}"]
    base += ["hardware.network=tcp", "hardware.network_gbps=1.25"] if slow and nodes > 1 else []
    if nodes > 1 and not slow:
        base += ["hardware.network=infiniband", "hardware.network_gbps=25"]
    base += ["precision=fp16"] if hardware.startswith("v100") else []
    ranks = resolve(load(container_of(*base))[0], None)[0].topology.world_size
    base += [f"batch.global_batch_size={batches * ranks}"] if batches else []
    outcome = run(*base, *AUTO)
    errors = {d.code for d in outcome.diagnostics if d.severity == 0}
    if outcome.run is None:
        assert errors <= {"ZC501", "ZC502"}, outcome.diagnostics
        assert all(d.hint for d in outcome.diagnostics)
        return
    plan = outcome.run.plan
    batch = plan.batch
    assert batch.micro_batch_size * batch.gradient_accumulation_steps * batch.data_parallel_size == batch.global_batch_size
    assert batches is None or batch.global_batch_size == batches * ranks
    found = estimate(plan)
    assert found.fits
    assert found.host_bytes_per_node <= plan.hardware.host_memory_bytes
    if not found.within(plan.hardware.memory_target):
        return  # nothing does: the fastest of what the card holds
    together = batch.micro_batch_size * batch.gradient_accumulation_steps
    sizes = [n for n in (batch.micro_batch_size // 2, batch.micro_batch_size * 2) if n and (batches is None or together % n == 0)]
    changes = [(f"batch.micro_batch_size={n}",) for n in sizes if n <= 128]
    changes += [(f"parallelism=zero{stage}",) for stage in (1, 2, 3) if stage != plan.zero.stage]
    changes += [("activation_checkpointing.enabled=false",), ("offload.optimizer=none", "offload.param=none"), ("offload.param=none",)]
    for change in changes:
        other = neighbour(base, plan, *change)
        assert other is None or speed(other) <= SPEED * speed(plan), change


@pytest.mark.parametrize(
    ("overrides", "codes"),
    [
        (("model=gpt_1b3", "hardware=a100x4", "batch.global_batch_size=30"), {"ZC201"}),
        (("model=gpt_1b3", "hardware=a100x4", "batch.global_batch_size=1"), {"ZC201"}),
        (("model=llama3_70b", "hardware=rtx4090_x2"), {"ZC501", "ZC502"}),
        (("model=gpt_1b3", "hardware=v100x4"), {"ZC401"}),
        (("model=gpt_1b3", "hardware=a100x4", "model.hidden_size=null"), {"ZC130"}),
        (("model=gpt_1b3", "hardware=a100x4", "parallelism.tensor_parallel_degree=3"), {"ZC210"}),
    ],
)
def test_what_auto_cannot_do_is_an_error_with_its_own_code(overrides: tuple[str, ...], codes: set[str]) -> None:
    outcome = run(*overrides, *AUTO)
    assert outcome.run is None
    assert {d.code for d in outcome.diagnostics if d.severity == 0} == codes
    assert all(d.hint for d in outcome.diagnostics if d.severity == 0)


@pytest.mark.parametrize(
    "overrides",
    [
        ("model=gpt_1b3", "hardware=h200x2", "hardware.gpus_per_node=1"),
        ("model=llama2_7b", "hardware=a100x8", "parallelism.tensor_parallel_degree=2"),
        ("model=llama2_7b", "hardware=a100x8", "parallelism.sequence_parallel_degree=2"),
        ("model=gpt_1b3", "hardware=a100x4", "batch.global_batch_size=64", "batch.gradient_accumulation_steps=2"),
        ("model=gpt_1b3", "hardware=a100x4", "optimizer=muon"),
        ("model=gpt_1b3", "hardware=a100x4", "optimizer=none"),
        ("model=gpt_1b3", "hardware=a100x4", "precision=fp32"),
        ("model=gpt_tiny", "hardware=cpu", "hardware.memory_bytes=8e9", "hardware.host_memory_bytes=16e9", "hardware.cpus_per_node=4"),
    ],
)
def test_auto_compiles(overrides: tuple[str, ...]) -> None:
    more = ("hardware.numa_nodes=1", "hardware.detect=false", "precision=fp32") if "hardware=cpu" in overrides else ()
    outcome = run(*overrides, *more, *AUTO)
    assert outcome.run is not None, outcome.diagnostics
    assert estimate(outcome.run.plan).fits
    assert "'auto'" not in str(outcome.run.deepspeed)
