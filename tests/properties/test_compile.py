"""What holds for every run that compiles, whatever groups and values it is made of."""

from __future__ import annotations

import copy
import json
import typing
from dataclasses import dataclass
from functools import cache
from typing import Any

from hypothesis import assume, event, given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from zerocfg.artifact import CompiledRun
from zerocfg.compiler import Outcome, examine
from zerocfg.confsource import conf_dir
from zerocfg.deepspeed.keys import lookup
from zerocfg.facts import Detected
from zerocfg.lowered import flatten
from zerocfg.schema import GROUPS

MACHINE = Detected(cpus=8, host_memory_bytes=16 * 2**30, numa_nodes=1, reason="no driver")
SIZES = (
    "reduce_bucket_size",
    "allgather_bucket_size",
    "stage3_prefetch_bucket_size",
    "stage3_param_persistence_threshold",
    "stage3_max_live_parameters",
    "stage3_max_reuse_distance",
    "sub_group_size",
    "offload_param.buffer_size",
    "offload_param.max_in_cpu",
)
VALUES: dict[str, list[Any]] = {
    "hardware.num_nodes": [1, 2, 3, 4],
    "parallelism.tensor_parallel_degree": [1, 2, 4],
    "parallelism.sequence_parallel_degree": [1, 2, 4],
    "parallelism.zero_hpz_partition_size": [0, 2, 4],
    "parallelism.overlap_comm": [True, False],
    "parallelism.round_robin_gradients": [True],
    "precision.grad_accum_dtype": ["fp32", "bf16"],
    "precision.communication_data_type": ["fp32", "bf16"],
    "batch.global_batch_size": [1, 32, 96, 100, 1e3],
    "batch.micro_batch_size": [1, 2, 3],
    "batch.gradient_accumulation_steps": [1, 4],
    "optimizer.lr": [2e-5, 1e-3, 1],
    "optimizer.gradient_clipping": [0, 1, 0.5],
    "train.steps": [3, 100, 5e3],
    "torchrun.max_restarts": [0, 3],
    "offload.pin_memory": [False],
    "deepspeed.steps_per_print": [10, 1e2],
    "deepspeed.zero_optimization.reduce_bucket_size": [5e5, 1000],
    "env.NCCL_DEBUG": ["WARN"],
}


@cache
def _options(group: str) -> list[str]:
    """What the planner decides (auto) becomes one of the others."""
    found = sorted(path.stem for path in (conf_dir() / group).glob("*.yaml"))
    return [name for name in found if name != "auto" or group == "hardware"]


@cache
def _option(group: str, name: str) -> dict[str, Any]:
    """One option over its schema, as Hydra composes it (tests/test_conf.py composes them all); many times faster."""
    node = OmegaConf.merge(OmegaConf.structured(GROUPS[group]), OmegaConf.load(conf_dir() / group / f"{name}.yaml"))
    if name.endswith("_nvme"):
        node.nvme_path = "/nvme"
    if group == "container" and name != "none":
        node.image = "image"
    if group == "hardware" and node.accelerator is not None:
        # most models would not fit, and what does not fit does not compile
        node.memory_bytes, node.host_memory_bytes = 2**43, 2**45
    return typing.cast(dict[str, Any], OmegaConf.to_container(node))


@dataclass(frozen=True)
class Asked:
    options: dict[str, str]
    values: dict[str, Any]

    def container(self) -> dict[str, Any]:
        made: dict[str, Any] = {group: copy.deepcopy(_option(group, name)) for group, name in self.options.items()}
        for path, value in self.values.items():
            *parents, last = path.split(".")
            node = made
            for parent in parents:
                node = node.setdefault(parent, {})
            node[last] = value
        return made


@st.composite
def runs(draw: st.DrawFn) -> Asked:
    options = {group: draw(st.sampled_from(_options(group))) for group in GROUPS}
    paths = draw(st.sets(st.sampled_from(sorted(VALUES)), max_size=4))
    return Asked(options, {path: draw(st.sampled_from(VALUES[path])) for path in sorted(paths)})


def _examine(asked: Asked) -> Outcome:
    return examine(asked.container(), detect=lambda: MACHINE)


def _run(asked: Asked) -> CompiledRun:
    """The compiled run; examples that have errors are left to the tests of errors."""
    outcome = _examine(asked)
    event("compiles" if outcome.run is not None else "has errors")
    assume(outcome.run is not None)
    assert outcome.run is not None
    return outcome.run


@given(runs())
def test_compiling_is_deterministic(asked: Asked) -> None:
    first, second = _examine(asked), _examine(asked)
    assert first == second
    if first.run is not None and second.run is not None:
        assert json.dumps(first.run.as_dict()) == json.dumps(second.run.as_dict())
        assert list(first.run.provenance) == list(second.run.provenance)


@given(runs())
def test_an_outcome_has_either_a_run_or_an_error(asked: Asked) -> None:
    outcome = _examine(asked)
    assert (outcome.run is None) == any(d.severity == 0 for d in outcome.diagnostics)
    for found in outcome.diagnostics:
        assert found.decided_by
        assert found.hint
        assert found.path in found.message or found.path.split(".")[-1] in found.message or found.path.startswith(("env.", "deepspeed."))


@given(runs())
def test_the_json_holds_nothing_open(asked: Asked) -> None:
    run = _run(asked)
    assert json.loads(json.dumps(run.deepspeed, allow_nan=False)) == run.deepspeed
    for path, value in flatten(run.deepspeed):
        key = lookup(path)
        assert value is not None, path
        assert value != "auto", path
        assert key is not None, path
        if key.type == "int":
            assert type(value) is int, (path, value)
        if key.type == "bool":
            assert type(value) is bool, (path, value)
    assert all(isinstance(value, str) and value for value in run.environment.values())
    assert all(argument.startswith("--") and "None" not in argument for argument in run.torchrun)


@given(runs())
def test_deepspeed_reads_each_key_at_this_stage(asked: Asked) -> None:
    """Nothing emitted by the passes is unknown, dead, deprecated or without effect (ZC60x, ZC61x, ZC63x)."""
    run = _run(asked)
    unread = [d for d in run.diagnostics if d.code.startswith(("ZC60", "ZC61", "ZC63")) and d.path not in asked.values]
    assert [found.render() for found in unread] == []


@given(runs())
def test_every_emitted_leaf_and_no_other_has_a_source(asked: Asked) -> None:
    run = _run(asked)
    emitted = [path for path, _ in flatten(run.deepspeed)]
    emitted += [f"torchrun.{argument[2:].partition('=')[0]}" for argument in run.torchrun]
    emitted += [f"environment.{name}" for name in run.environment]
    emitted += [f"resources.{name}" for name in run.as_dict()["resources"]]
    words = [path for path in run.provenance if path.startswith("container.")]
    assert list(run.provenance) == [*emitted, *words]
    assert bool(words) == bool(run.container)
    assert {path: entry.value for path, entry in run.provenance.items() if path in dict(flatten(run.deepspeed))} == dict(
        flatten(run.deepspeed)
    )
    for entry in run.provenance.values():
        assert entry.source
        assert entry.reason
        assert "\n" not in entry.render()


@given(runs())
def test_no_size_is_larger_than_the_model(asked: Asked) -> None:
    run = _run(asked)
    if run.plan.model is None:
        return
    sizes = {path: value for path, value in flatten(run.deepspeed) if path.startswith("zero_optimization.") and path.endswith(SIZES)}
    written = {path.removeprefix("deepspeed.") for path in asked.values}
    # a distance between two uses, forward to backward: nothing is allocated by it
    passes = {"zero_optimization.stage3_max_reuse_distance": 3}
    whole = run.plan.model.num_parameters
    larger = {path: value for path, value in sizes.items() if value > passes.get(path, 1) * whole and path not in written}
    assert larger == {}


@given(runs())
def test_the_batch_and_the_ranks_multiply(asked: Asked) -> None:
    run = _run(asked)
    batch, topology, emitted = run.plan.batch, run.plan.topology, run.deepspeed
    assert batch.global_batch_size == batch.micro_batch_size * batch.gradient_accumulation_steps * batch.data_parallel_size
    assert topology.world_size == batch.data_parallel_size * topology.tensor_parallel_degree * topology.sequence_parallel_degree
    assert emitted["train_micro_batch_size_per_gpu"] * emitted["gradient_accumulation_steps"] * batch.data_parallel_size == emitted.get(
        "train_batch_size", batch.global_batch_size
    )
    assert run.resources.num_nodes * run.resources.ranks_per_node == topology.world_size
