"""train = micro x accumulation x dp, and dp x tp x sp = world: always, and every value that a report names does work."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from zerocfg.diagnostics import Diagnostic
from zerocfg.facts import HardwareFacts, ModelFacts
from zerocfg.passes.check.topology import CHECKS
from zerocfg.passes.resolve.batch import resolve_batch
from zerocfg.passes.resolve.hardware import resolve_hardware
from zerocfg.passes.resolve.topology import resolve_topology
from zerocfg.plan import TopologyPlan
from zerocfg.schema.batch import BatchConfig
from zerocfg.schema.hardware import HardwareConfig
from zerocfg.schema.parallelism import ParallelismConfig
from zerocfg.schema.types import Accelerator

NAMES = ("global_batch_size", "micro_batch_size", "gradient_accumulation_steps")
sizes = st.integers(-2, 10**6)


@st.composite
def topologies(draw: st.DrawFn) -> TopologyPlan:
    tp, sp, dp = draw(st.integers(1, 8)), draw(st.integers(1, 8)), draw(st.integers(1, 64))
    return TopologyPlan(
        num_nodes=1,
        nproc_per_node=tp * sp * dp,
        tensor_parallel_degree=tp,
        sequence_parallel_degree=sp,
        backend="nccl",
        cpus_per_rank=1,
    )


@given(given=st.dictionaries(st.sampled_from(NAMES), sizes), topology=topologies())
def test_a_batch_is_solved_or_what_is_named_instead_works(given: dict[str, int], topology: TopologyPlan) -> None:
    resolved = resolve_batch(BatchConfig(**given), topology)
    plan = resolved.value
    assert plan.global_batch_size == plan.micro_batch_size * plan.gradient_accumulation_steps * plan.data_parallel_size
    assert plan.data_parallel_size * topology.tensor_parallel_degree * topology.sequence_parallel_degree == topology.world_size
    assert min(plan.global_batch_size, plan.micro_batch_size, plan.gradient_accumulation_steps) >= 1
    if not resolved.problems:
        assert {name: getattr(plan, name) for name in given} == given
    elif any(value < 1 for value in given.values()):
        assert {problem.code for problem in resolved.problems} == {"ZC202"}
    else:
        (problem,) = resolved.problems
        options = _options(problem)
        assert options
        for change in options:
            assert list(resolve_batch(BatchConfig(**{**given, **change}), topology).problems) == []


@given(given=st.dictionaries(st.sampled_from(NAMES), st.integers(1, 10**6), min_size=1), topology=topologies())
def test_a_batch_that_exists_is_never_refused(given: dict[str, int], topology: TopologyPlan) -> None:
    """Any subset of a triple that multiplies is solved."""
    micro, steps = given.get("micro_batch_size", 1), given.get("gradient_accumulation_steps", 1)
    triple = {
        "micro_batch_size": micro,
        "gradient_accumulation_steps": steps,
        "global_batch_size": micro * steps * topology.data_parallel_size,
    }
    asked = {name: triple[name] for name in given}
    assert list(resolve_batch(BatchConfig(**asked), topology).problems) == []


def _options(problem: Diagnostic) -> list[dict[str, int]]:
    """batch.global_batch_size=96 or 104, or batch.gradient_accumulation_steps=4 -> each of them."""
    found = []
    for name, values in re.findall(r"batch\.(\w+)=(\d+(?: or \d+)*)", problem.hint):
        found += [{name: int(value)} for value in values.split(" or ")]
    return found


def _hardware(num_nodes: int, gpus_per_node: int) -> HardwareFacts:
    config = HardwareConfig(
        accelerator=Accelerator.cuda, num_nodes=num_nodes, gpus_per_node=gpus_per_node, memory_bytes=1, compute_capability="8.0"
    )
    return resolve_hardware(config, None).value


def _model(heads: int, kv_heads: int, length: int) -> ModelFacts:
    return ModelFacts(
        name="",
        num_hidden_layers=1,
        hidden_size=heads,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=1,
        intermediate_size=1,
        vocab_size=1,
        tie_word_embeddings=True,
        sequence_length=length,
        mlp="gelu",
        norm="rmsnorm",
        positions="rotary",
        bias=False,
    )


degrees = st.integers(-1, 40)


@given(
    nodes=st.integers(1, 8),
    gpus=st.integers(1, 16),
    tp=degrees,
    sp=degrees,
    model=st.none() | st.builds(_model, st.integers(1, 64), st.just(1), st.integers(1, 4096)),
)
def test_degrees_tile_the_world_or_what_is_named_instead_does(nodes: int, gpus: int, tp: int, sp: int, model: ModelFacts | None) -> None:
    hardware = _hardware(nodes, gpus)
    config = {"tensor_parallel_degree": tp, "sequence_parallel_degree": sp}
    resolved = resolve_topology(ParallelismConfig(**config), hardware, model)
    plan = resolved.value
    assert plan.data_parallel_size * plan.tensor_parallel_degree * plan.sequence_parallel_degree == plan.world_size == nodes * gpus
    if not resolved.problems:
        assert (plan.tensor_parallel_degree, plan.sequence_parallel_degree) == (tp, sp)
    for problem in resolved.problems:
        if problem.code in ("ZC210", "ZC211"):
            name, value = re.fullmatch(r"parallelism\.(\w+)=(\d+)", problem.hint).groups()  # type: ignore[union-attr]
            other: dict[str, Any] = {
                name: int(value),
                "sequence_parallel_degree" if name.startswith("tensor") else "tensor_parallel_degree": 1,
            }
            again = resolve_topology(ParallelismConfig(**other), hardware, model).problems
            assert [p.path for p in again if p.code == problem.code] == []


@given(heads=st.integers(1, 12), groups=st.integers(1, 12), data=st.data())
def test_what_is_named_instead_goes_with_grouped_heads(heads: int, groups: int, data: st.DataObject) -> None:
    model = _model(heads * groups, groups, 27720)  # a length that every degree up to 12 divides
    sp = data.draw(st.sampled_from([d for d in range(1, 13) if model.num_attention_heads % d == 0]))
    hardware = _hardware(1, sp)
    assume(not resolve_topology(ParallelismConfig(sequence_parallel_degree=sp), hardware, model).problems)

    def found(degree: int) -> list[Diagnostic]:
        plan = _Planned(resolve_topology(ParallelismConfig(sequence_parallel_degree=degree), hardware, model).value, model)
        return [problem for problem in CHECKS[0](plan, frozenset()) if problem.code == "ZC213"]  # type: ignore[arg-type]

    for problem in found(sp):
        assert found(int(problem.hint.rpartition("=")[2])) == []


class _Planned:
    def __init__(self, topology: TopologyPlan, model: ModelFacts) -> None:
        self.topology, self.model = topology, model
