"""Whatever stands in a config, the compiler answers with diagnostics: it never raises."""

from __future__ import annotations

import dataclasses
import json
import typing
from enum import Enum
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from zerocfg.compiler import examine
from zerocfg.diagnostics import render_report
from zerocfg.facts import Detected, DetectedGpu
from zerocfg.schema import FREE, GROUPS, SECTIONS

numbers = st.one_of(
    st.integers(-3, 40),
    st.integers(),
    st.sampled_from([2**31, 2**53 + 1, 2**63 - 1, 2**63, 10**40, 10**400]),
    st.builds(pow, st.sampled_from([10, -10]), st.just(5001)),  # more digits than Python writes
    st.floats(),
    st.sampled_from([0.5, 5e8, 1e-8, 1e308, -0.0]),
)
texts = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        ["", "auto", "???", "none", "cpu", "nvme", "bf16", "8.0", "AdamW", "WarmupLR", "true", "a\nb", "a\0b", "${x}", "SIGTERM"]
    ),
)
scalars = st.one_of(st.none(), st.booleans(), numbers, texts, st.just(b"bytes"), st.builds(object))
junk = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.one_of(texts, numbers, st.none()), inner, max_size=3)),
    max_leaves=6,
)


def _fitting(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a field's type, so that the passes behind the loader are reached."""
    inner = [arg for arg in typing.get_args(hint) if arg is not type(None)]
    if type(None) in typing.get_args(hint):
        return st.none() | _fitting(typing.Union[tuple(inner)])  # noqa: UP007 - built at run time
    if typing.get_origin(hint) is list:
        return st.lists(_fitting(inner[0]), max_size=3)
    if inner:
        return st.one_of(st.integers(-1, 64), st.sampled_from([0, 2**40, 2**63 - 1, 5e8]))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return st.sampled_from([*hint, *(member.value for member in hint)])
    return {bool: st.booleans(), float: st.one_of(st.floats(-1, 2), st.just(1e-4)), str: texts}[hint]


def _section(cls: type) -> st.SearchStrategy[dict[Any, Any]]:
    hints = typing.get_type_hints(cls)
    fields = {field.name: st.one_of(_fitting(hints[field.name]), _fitting(hints[field.name]), junk) for field in dataclasses.fields(cls)}
    return st.fixed_dictionaries({}, optional={**fields, "no_such_key": junk})


def _names() -> list[str]:
    return [*GROUPS, *SECTIONS, *FREE]


containers = st.fixed_dictionaries(
    {},
    optional={
        **{name: st.one_of(_section(cls), _section(cls), _section(cls), junk) for name, cls in {**GROUPS, **SECTIONS}.items()},
        "deepspeed": st.one_of(
            junk,
            st.dictionaries(
                st.sampled_from(
                    [
                        "zero_optimization",
                        "fp16",
                        "bfloat16",
                        "bf16",
                        "optimizer",
                        "scheduler",
                        "tensor_parallel",
                        "train_batch_size",
                        "x.y",
                    ]
                ),
                st.one_of(
                    junk,
                    st.dictionaries(
                        st.sampled_from(
                            ["stage", "enabled", "type", "params", "prefetch_bucket_size", "stage3_prefetch_bucket_size", "autotp_size"]
                        ),
                        junk,
                    ),
                ),
                max_size=4,
            ),
        ),
        "env": st.one_of(junk, st.dictionaries(st.one_of(texts, st.sampled_from(["A", "RANK", "OMP_NUM_THREADS"])), scalars, max_size=3)),
        "something_else": junk,
    },
)
GPUS = Detected(
    cpus=0,
    host_memory_bytes=0,
    numa_nodes=0,
    gpus=(DetectedGpu(index=0, uuid="", name="", memory_bytes=0, compute_capability=(0, 0)),),
)
machines = st.sampled_from([None, lambda: GPUS, lambda: Detected(cpus=0, host_memory_bytes=0, numa_nodes=0)])
environs = st.dictionaries(st.sampled_from(["OMP_NUM_THREADS", "DS_ACCELERATOR", "NCCL_DEBUG"]), texts, max_size=2)


@settings(max_examples=600)
@given(container=containers, detect=machines, environ=environs)
@example(container={"precision": {"dtype": None}}, detect=None, environ={})
@example(container={"batch": {"global_batch_size": 10**400}}, detect=None, environ={})
@example(container={"deepspeed": {"a": {}, "a.b": 1}}, detect=None, environ={})
@example(container={"batch": {"micro_batch_size": 0}, "parallelism": {"sequence_parallel_degree": 2}}, detect=None, environ={})
def test_examine_never_raises(container: dict[str, Any], detect: Any, environ: dict[str, str]) -> None:
    outcome = examine(container, detect=detect, environ=environ)
    report = render_report(outcome.diagnostics)
    assert (outcome.run is None) == ("error[" in report)
    assert all(isinstance(value, str) for found in outcome.diagnostics for value in found.as_dict().values())
    if outcome.run is not None:
        json.dumps(outcome.run.as_dict(), allow_nan=False)
        assert all(entry.render().isprintable() for entry in outcome.run.provenance.values())


def test_every_name_of_the_schema_is_fuzzed() -> None:
    assert _names() == [*GROUPS, *SECTIONS, "deepspeed", "env"]
