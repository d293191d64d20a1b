"""Whatever a file holds: it imports, compiles, every key is accounted for, and DeepSpeed understands the result as the file."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks import corpus
from tests.deepspeed.importer import random_configs
from zerocfg.compiler import examine
from zerocfg.deepspeed.importer import import_config
from zerocfg.diagnostics import Severity

MICRO = {"train_micro_batch_size_per_gpu": 2}
ONE_CYCLE = {"type": "OneCycle", "params": {"cycle_min_lr": 0.1, "cycle_max_lr": 1}}
WHOLE: dict[str, dict[str, Any]] = {
    "empty": {},
    "total only": {"train_batch_size": 32},
    "total and steps": {"train_batch_size": 64, "gradient_accumulation_steps": 4, "zero_optimization": {"stage": 1}},
    "stage 2": {**MICRO, "zero_optimization": {"stage": 2}, "bf16": {"enabled": True}},
    "the old form of stage 1": {**MICRO, "zero_optimization": True},
    "torch's Adam": {**MICRO, "optimizer": {"type": "adam", "params": {"lr": 1e-3, "torch_adam": True}}},
    "momentum cycles": {**MICRO, "optimizer": {"type": "Adam"}, "scheduler": ONE_CYCLE},
    "Lamb": {**MICRO, "optimizer": {"type": "Lamb", "params": {}}, "fp16": {"enabled": True, "loss_scale_window": 100}},
    "sequence parallel": {**MICRO, "sequence_parallel_size": 2, "data_parallel_size": 4, "communication_data_type": "bf16"},
    "tensor parallel": {**MICRO, "tensor_parallel": {"autotp_size": 2, "preset_model": "llama"}, "bf16": {"enabled": True}},
    "two disks": {
        **MICRO,
        "zero_optimization": {
            "stage": 3,
            "offload_optimizer": {"device": "nvme", "nvme_path": "/a", "pin_memory": False},
            "offload_param": {"device": "nvme", "nvme_path": "/b"},
        },
    },
    "sums in the model's type": {
        **MICRO,
        "fp16": {"enabled": True},
        "data_types": {"grad_accum_dtype": "half"},
        "zero_optimization": {"stage": 2},
    },
}


def agree(compare: Any, config: dict[str, Any], world_size: int | None = None, **options: Any) -> None:
    imported = import_config(config, world_size=world_size, **options)
    assert corpus.unaccounted(config, imported) == []
    assert [note for note in imported.notes if note.severity is Severity.ERROR] == []
    assert compare(config, imported, world_size) == ""


@pytest.mark.parametrize("config", WHOLE.values(), ids=WHOLE)
def test_the_same_meaning(compare: Any, config: dict[str, Any]) -> None:
    agree(compare, config)


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.randoms(use_true_random=False))
def test_the_same_meaning_of_any_config(compare: Any, source: random.Random) -> None:
    agree(compare, random_configs.config(source))


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.randoms(use_true_random=False))
def test_the_same_meaning_on_known_ranks_with_a_described_model(compare: Any, source: random.Random) -> None:
    """The model decides only what is "auto": sizes that the file leaves out stay DeepSpeed's."""
    config = random_configs.config(source)
    agree(
        compare, config, world_size=8, model={"model": "gpt2_124m", "model.num_attention_heads": 16}
    )  # for any degree of tensor parallelism


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.randoms(use_true_random=False))
def test_importing_what_was_compiled_changes_nothing(hydra: corpus.Composer, source: random.Random) -> None:
    first = import_config(random_configs.config(source))
    compiled = [*first.overrides, *corpus.hardware(corpus.ranks_for(first))]
    once = examine(hydra.compose(compiled).container).run
    assert once is not None
    second = import_config(once.deepspeed, world_size=once.plan.topology.world_size)
    assert [
        entry for entry in second.entries if entry.outcome == "refused" and entry.code not in ("ZC607", "ZC630", "ZC631", "ZC906")
    ] == []
    again = examine(hydra.compose([*second.overrides, *corpus.hardware(once.plan.topology.world_size)]).container).run
    assert again is not None
    assert {**again.deepspeed} == {**once.deepspeed}
