from __future__ import annotations

import copy
import dataclasses
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from zerocfg.compiler import compile_run, examine, resolve
from zerocfg.compose import compose
from zerocfg.diagnostics import ConfigProblems, render_report
from zerocfg.facts import Detected, DetectedGpu
from zerocfg.plan import Plan
from zerocfg.provenance import Origin, Origins
from zerocfg.schema.load import load

Make = Callable[..., dict[str, Any]]
TWO = Detected(
    cpus=32,
    host_memory_bytes=256 * 2**30,
    numa_nodes=1,
    gpus=tuple(
        DetectedGpu(index=i, uuid=f"GPU-{i}", name="NVIDIA H200", memory_bytes=141 * 2**30, compute_capability=(9, 0)) for i in range(2)
    ),
    link="nvswitch",
    p2p=True,
)


def test_all_problems_come_in_one_report() -> None:
    wanted = "parallelism=zero2 offload=all precision=bf16 hardware=v100x4"
    composed = compose([*wanted.split(), "batch.global_batch_size=102", "batch.micro_batch_size=4"])
    outcome = examine(composed.container, origins=composed.origins)
    assert outcome.run is None
    assert [(d.code, d.decided_by) for d in outcome.diagnostics] == [
        ("ZC201", "command line: batch.global_batch_size=102"),
        ("ZC302", "zerocfg/offload/all.yaml:4"),
        ("ZC401", "zerocfg/precision/bf16.yaml:3"),
    ]


def test_compile_run_raises_the_whole_report(container: Make) -> None:
    with pytest.raises(ConfigProblems) as raised:
        compile_run(container({"parallelism.stage": 7, "batch.micro_batch_size": 0, "env.RANK": 1}))
    assert [d.code for d in raised.value.diagnostics] == ["ZC202", "ZC301", "ZC811"]
    assert str(raised.value) == render_report(raised.value.diagnostics)
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


def test_warnings_and_notes_stay_with_the_run(container: Make) -> None:
    run = compile_run(container({"parallelism.zero_quantized_gradients": True}), environ={"OMP_NUM_THREADS": "1"})
    assert [(d.code, d.severity.label) for d in run.diagnostics] == [("ZC309", "warning"), ("ZC810", "note")]
    assert run.environment["OMP_NUM_THREADS"] == "1"


def test_the_shape_of_compile_json(container: Make) -> None:
    shown = compile_run(container()).as_dict()
    assert list(shown) == ["deepspeed", "torchrun", "environment", "resources"]
    assert [type(part) for part in shown.values()] == [dict, list, dict, dict]
    assert json.loads(json.dumps(shown, allow_nan=False)) == shown


def test_the_config_is_left_as_it_was(container: Make) -> None:
    given = container({"deepspeed": {"zero_optimization": {"sub_group_size": 5e8}, "aio": {}}, "env": {"A": 1}})
    before = copy.deepcopy(given)
    run = compile_run(given)
    assert given == before
    assert run.deepspeed["zero_optimization"]["sub_group_size"] == 500_000_000
    run.deepspeed["aio"]["block_size"] = 1  # the artifact is the caller's own
    assert given == before


@pytest.mark.parametrize(("detect", "calls"), [(True, 1), (False, 0)])
def test_the_machine_is_looked_at_only_where_asked(detect: bool, calls: int, container: Make) -> None:
    seen = []

    def look() -> Detected:
        seen.append(1)
        return TWO

    outcome = examine(container({"hardware.detect": detect, "hardware.gpus_per_node": None if detect else 8}), detect=look)
    assert len(seen) == calls
    assert outcome.run is not None
    assert outcome.run.plan.detected is detect
    assert outcome.run.plan.topology.world_size == (2 if detect else 8)


def test_keys_of_the_app_itself_are_not_ours(container: Make) -> None:
    assert compile_run({**container(), "dataset": {"path": "/x"}, "lr": "???"}) == compile_run(container())


def test_a_problem_says_who_decided_the_value(container: Make) -> None:
    origins = Origins(
        {
            "offload.ratio": Origin("command line: offload.ratio=0.5"),
            "parallelism": Origin("conf/parallelism/mine.yaml"),
            "deepspeed.zero_optimization.stage": Origin("command line: +deepspeed.zero_optimization.stage=2"),
        }
    )
    changes = {"offload.ratio": 0.5, "parallelism.stage": 9, "deepspeed.zero_optimization.stage": 2, "parallelism.reduce_bucket_size": -1}
    found = examine(container(changes), origins=origins)
    assert {d.path: d.decided_by for d in found.diagnostics} == {
        "deepspeed.zero_optimization.stage": "command line: +deepspeed.zero_optimization.stage=2",
        "parallelism.reduce_bucket_size": "conf/parallelism/mine.yaml",
        "offload.ratio": "command line: offload.ratio=0.5",
        "parallelism.stage": "conf/parallelism/mine.yaml",
    }


@pytest.mark.parametrize(
    ("changes", "codes"),
    [
        # the JSON's own check of the same value is not told besides, in another name
        ({"offload.param": "cpu", "parallelism.stage": 2}, ["ZC302"]),
        ({"offload": {"optimizer": "nvme", "nvme_path": "/nvme"}, "parallelism.stage": 1}, ["ZC303"]),
        ({"hardware.compute_capability": "7.0"}, ["ZC401"]),
        ({"optimizer.betas": [0.9, 2.0]}, ["ZC142"]),
        ({"optimizer.type": "Muon", "parallelism.reduce_scatter": True}, ["ZC322"]),
        # what only the JSON shows is told
        ({"deepspeed.steps_per_prnt": 5}, ["ZC601"]),
        ({"parallelism": {"stage": 2, "allgather_bucket_size": 1001}}, ["ZC675"]),
        ({"parallelism.reduce_bucket_size": 0}, ["ZC625"]),
        # a warning of the plan does not hide an error of the JSON
        ({"parallelism.zero_quantized_gradients": True, "deepspeed.zero_optimization.reduce_scatter": False}, ["ZC309", "ZC677"]),
    ],
)
def test_a_problem_is_told_once(changes: dict[str, Any], codes: list[str], container: Make) -> None:
    found = examine(container(changes)).diagnostics
    assert sorted(d.code for d in found) == codes, [d.render() for d in found]


def test_a_problem_of_the_json_is_told_of_the_key_that_was_written(container: Make) -> None:
    (found,) = examine(container({"parallelism.reduce_bucket_size": 0})).diagnostics
    assert (
        found.render()
        == """\
error[ZC625] parallelism.reduce_bucket_size=0 must be greater than 0
  decided by: schema default
  try: parallelism.reduce_bucket_size=500000000"""
    )


def test_a_plan_leaves_nothing_open(container: Make) -> None:
    """No None, no "auto", no negative number; 0 and "" mean "none of it" where a docstring says so."""
    config, _ = load(container())
    plan, reasons, problems = resolve(config, None)
    assert problems == []
    open_values = [
        path for path, value in _values("", plan) if value is None or value == "auto" or (isinstance(value, (int, float)) and value < 0)
    ]
    # no profile was given: dims decide. And a mode, not an open value: the run starts from the last whole checkpoint of its folder,
    # which only its start can know
    assert open_values == [".profile", ".checkpoint.resume"]
    named = {f"{section.name}.{field.name}" for section, field in _fields(plan)}
    described = {path for path in named if not path.startswith(("optimizer.params", "scheduler.params", "communication."))}
    # every field of every section says why it is what it is, but for what a model's or topology's dims imply
    assert sorted(described - reasons.keys()) == []


def _fields(plan: Plan) -> list[tuple[Any, Any]]:
    return [
        (section, field)
        for section in dataclasses.fields(plan)
        if dataclasses.is_dataclass(getattr(plan, section.name))
        for field in dataclasses.fields(getattr(plan, section.name))
    ]


def _values(prefix: str, node: Any) -> list[tuple[str, Any]]:
    if dataclasses.is_dataclass(node):
        return [leaf for field in dataclasses.fields(node) for leaf in _values(f"{prefix}.{field.name}", getattr(node, field.name))]
    if isinstance(node, dict):
        return [leaf for key, value in node.items() for leaf in _values(f"{prefix}.{key}", value)]
    return [(prefix, node)]
