"""The look-up API of the key table."""

from __future__ import annotations

import subprocess
import sys

import pytest

from zerocfg.deepspeed import keys


def test_a_key_is_found_in_every_spelling() -> None:
    key = keys.lookup("zero_optimization.prefetch_bucket_size")
    assert key is not None
    assert key is keys.lookup("zero_optimization.stage3_prefetch_bucket_size")
    assert (key.path, key.type, key.default, key.ge, key.stages, key.reader) == (
        "zero_optimization.stage3_prefetch_bucket_size",
        "int",
        50_000_000,
        0,
        (3,),
        "model",
    )
    assert key.aliases == ("zero_optimization.prefetch_bucket_size",)


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("bfloat16", "bf16"),
        ("bfloat16.enabled", "bf16.enabled"),
        ("zero_optimization.max_live_parameters", "zero_optimization.stage3_max_live_parameters"),
        ("tensor_parallel.tensor_parallel.tp_size", "tensor_parallel.tp.tp_size"),
        ("tensor_parallel.replace_with_kernel_inject", "tensor_parallel.kernel_inject"),
        ("zero_optimization.stage", "zero_optimization.stage"),
        ("zero_optimization.no_such_key", "zero_optimization.no_such_key"),
        ("no.such.section", "no.such.section"),
        ("autotuning.arg_mappings.train_batch_size", "autotuning.arg_mappings.train_batch_size"),
    ],
)
def test_canonical(written: str, canonical: str) -> None:
    assert keys.canonical(written) == canonical


def test_free_names_and_list_items() -> None:
    metric = keys.lookup("data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.seqlen.min_difficulty")
    spec = keys.lookup("tensor_parallel.partition_config.layer_specs.0.patterns")
    assert metric is not None
    assert metric.required
    assert spec is not None
    assert spec.type == "list[str]"
    free, gone = keys.lookup("autotuning.arg_mappings.anything"), keys.lookup("elasticity.max_train_batch_size")
    assert free is not None
    assert gone is not None
    assert (free.path, gone.path, gone.status, gone.loud) == ("autotuning.arg_mappings", "elasticity", "removed", True)
    assert keys.lookup("zero_optimization.no_such_key") is None
    assert keys.lookup("") is None


def test_facts_that_people_rely_on() -> None:
    def default(path: str) -> object:
        key = keys.lookup(path)
        assert key is not None, path
        return key.default

    assert default("gradient_clipping") == 1.0
    assert default("zero_optimization.offload_optimizer.pin_memory") is True
    assert default("bf16.check_grad_overflow") is True
    assert default("steps_per_print") is None
    clipping = keys.lookup("gradient_clipping")
    assert clipping is not None
    assert clipping.changed == ("0.19.3", 0.0, 1.0)
    stages = keys.lookup("pipeline.stages")
    assert stages is not None
    assert stages.status == "dead"
    zenflow = keys.lookup("zero_optimization.zenflow.topk_ratio")
    assert zenflow is not None
    assert (zenflow.gt, zenflow.lt, zenflow.since) == (0.0, 1.0, "0.17.6")


def test_every_key_is_described_once() -> None:
    every = keys.all_keys()
    assert len({key.path for key in every}) == len(every) > 400
    # arguments that only torch's classes take are documented by torch
    assert [key.path for key in every if not key.doc and not key.path.startswith("optimizer.params.")] == []
    assert all(len(key.doc) < 140 and "\n" not in key.doc for key in every)
    assert {key.status for key in every} == {"live", "dead", "deprecated", "removed", "needs_call"}


def test_sections_and_children() -> None:
    assert {"zero_optimization", "zero_optimization.offload_param", "optimizer", "bf16", "checkpoint.writer"} <= set(keys.sections())
    assert [key.name for key in keys.children("fp16")][:2] == ["enabled", "auto_cast"]
    assert keys.children("bfloat16") == keys.children("bf16")
    assert keys.children("no_such_section") == ()
    assert {"train_batch_size", "zero_optimization"} <= {key.name for key in keys.children("")}


@pytest.mark.parametrize(
    ("path", "first"),
    [
        ("zero_optimization.overlap_com", "zero_optimization.overlap_comm"),
        ("gradient_acumulation_steps", "gradient_accumulation_steps"),
        ("offload_optimizer", "zero_optimization.offload_optimizer"),
        ("optimizer.eps", "optimizer.params.eps"),
        ("bf16.loss_scale", "fp16.loss_scale"),
        ("warmup_num_steps", "scheduler.params.warmup_num_steps"),
        ("zero_optimization.prefetch_bucket", "zero_optimization.stage3_prefetch_bucket_size"),
        ("prefetch_bucket_size", "zero_optimization.stage3_prefetch_bucket_size"),
    ],
)
def test_nearest(path: str, first: str) -> None:
    assert keys.nearest(path)[0] == first


def test_names_that_every_section_has_say_nothing() -> None:
    assert keys.nearest("enabled") == []
    assert keys.nearest("fp16.enabeld") == ["fp16.enabled"]
    assert keys.nearest("no_such_thing_at_all") == []


def test_optimizer_arguments_depend_on_where_it_runs() -> None:
    fused, cpu, torch = (
        keys.optimizer_params("AdamW", False),
        keys.optimizer_params("adamw", True),
        keys.optimizer_params("AdamW", False, torch_adam=True),
    )
    assert fused is not None
    assert cpu is not None
    assert torch is not None
    assert "set_grad_none" in fused
    assert "set_grad_none" not in cpu
    assert "fp32_optimizer_states" in cpu
    assert "bias_correction" not in torch
    assert "foreach" in torch
    assert "max_grad_norm" not in (keys.optimizer_params("Lamb", False) or {})
    assert "momentum" in (keys.optimizer_params("SGD", False) or {})
    assert keys.optimizer_params("MuAdam", False) is None
    assert keys.optimizer_params("sgd", False) is None
    assert (fused["lr"].path, fused["lr"].default) == ("optimizer.params.lr", 0.001)


def test_scheduler_arguments() -> None:
    cosine, warm = keys.scheduler_params("WarmupCosineLR"), keys.scheduler_params("WarmupLR")
    assert cosine is not None
    assert warm is not None
    assert cosine["total_num_steps"].required
    assert "warmup_max_lr" not in cosine
    assert warm["warmup_num_steps"].default == 1000
    assert "T_max" in (keys.scheduler_params("CosineAnnealingLR") or {})
    assert keys.scheduler_params("warmuplr") is None


def test_looking_up_imports_nothing_heavy() -> None:
    code = (
        "import sys; from zerocfg.deepspeed import keys, check; keys.nearest('x'); "
        "check.check_deepspeed({'optimizer': {'type': 'Adam'}}, world_size=1); "
        "print(sorted({'torch', 'deepspeed', 'pydantic', 'hydra', 'omegaconf', 'zerocfg.deepspeed.catalogue'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_the_table_names_its_release() -> None:
    import deepspeed

    assert keys.release() == deepspeed.__version__.partition("+")[0]
