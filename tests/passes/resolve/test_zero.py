from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest

from zerocfg.facts import ModelFacts
from zerocfg.passes.resolve.zero import resolve_zero
from zerocfg.plan import TopologyPlan, ZeroPlan
from zerocfg.provenance import asked
from zerocfg.schema.parallelism import ParallelismConfig

TWO_NODES = TopologyPlan(
    num_nodes=2, nproc_per_node=8, tensor_parallel_degree=1, sequence_parallel_degree=1, backend="nccl", cpus_per_rank=1
)


def model(hidden: int = 4096, layers: int = 32, vocab: int = 32000) -> ModelFacts:
    return ModelFacts(
        name="",
        num_hidden_layers=layers,
        hidden_size=hidden,
        num_attention_heads=1,
        num_key_value_heads=1,
        head_dim=hidden,
        intermediate_size=4 * hidden,
        vocab_size=vocab,
        tie_word_embeddings=True,
        sequence_length=16,
        mlp="gelu",
        norm="rmsnorm",
        positions="rotary",
        bias=False,
    )


SEVEN_B, TINY = model(), model(hidden=8, layers=1, vocab=25)
OFF: dict[str, Any] = {
    "round_robin_gradients": False,
    "stage3_gather_16bit_weights_on_model_save": False,
    "zero_hpz_partition_size": 1,
    "zero_quantized_weights": False,
    "zero_quantized_gradients": False,
    "memory_efficient_linear": True,
    "leaf_module_classes": (),
    "find_leaf_modules": False,
}
DEFAULTS: dict[str, Any] = {
    "reduce_bucket_size": 500_000_000,
    "allgather_bucket_size": 500_000_000,
    "stage3_prefetch_bucket_size": 50_000_000,
    "stage3_param_persistence_threshold": 100_000,
    "stage3_max_live_parameters": 10**9,
    "stage3_max_reuse_distance": 10**9,
    "sub_group_size": 10**9,
}


def switches(on: bool, reduce_scatter: bool | None = None) -> dict[str, bool]:
    return {"overlap_comm": on, "contiguous_gradients": on, "reduce_scatter": on if reduce_scatter is None else reduce_scatter}


@pytest.mark.parametrize(
    ("stage", "described", "optimizer", "expected"),
    [
        (0, None, "AdamW", {**switches(False), **DEFAULTS}),
        (1, None, "AdamW", {**switches(True), **DEFAULTS}),
        (3, None, "AdamW", {**switches(True), **DEFAULTS, "find_leaf_modules": True}),
        (3, None, "Muon", {**switches(True, reduce_scatter=False), **DEFAULTS, "find_leaf_modules": True}),
        (2, None, "Muon", {**switches(True), **DEFAULTS}),
        (
            2,
            SEVEN_B,
            "AdamW",
            {**switches(True), **DEFAULTS, "stage3_prefetch_bucket_size": 15_099_494, "stage3_param_persistence_threshold": 40_960},
        ),
        (
            3,
            SEVEN_B,
            "AdamW",
            {
                **switches(True),
                **DEFAULTS,
                # a block of 12 h^2 weights and two norms; 1e8 elements are the most for a bucket
                "reduce_bucket_size": 100_000_000,
                "stage3_prefetch_bucket_size": 12 * 4096**2 + 2 * 4096,
                "stage3_param_persistence_threshold": 40_960,
                "find_leaf_modules": True,
            },
        ),
        (
            # 25 x 8 embedding + 12 x 8^2 block + 3 norms of 8 = 992 parameters: each size ends there
            3,
            TINY,
            "AdamW",
            {
                **switches(True),
                "find_leaf_modules": True,
                "reduce_bucket_size": 12 * 64 + 16,
                "allgather_bucket_size": 992,
                "stage3_prefetch_bucket_size": 12 * 64 + 16,
                "stage3_param_persistence_threshold": 80,
                "stage3_max_live_parameters": 992,
                "stage3_max_reuse_distance": 992,
                "sub_group_size": 992,
            },
        ),
    ],
)
def test_what_is_left_null(stage: int, described: ModelFacts | None, optimizer: str, expected: dict[str, Any]) -> None:
    resolved = resolve_zero(ParallelismConfig(stage=stage), described, TWO_NODES, optimizer)
    assert asdict(resolved.value) == asdict(ZeroPlan(stage=stage, **{**OFF, **expected}))
    assert list(resolved.problems) == []


def test_the_reasons_hold_the_numbers() -> None:
    reasons = resolve_zero(ParallelismConfig(stage=3), SEVEN_B, TWO_NODES, "AdamW").reasons
    assert {name: reason.text for name, reason in reasons.items() if reason.by} == {
        "overlap_comm": "on from stage 1: reduction hides behind the backward pass",
        "contiguous_gradients": "on from stage 1: no fragmentation of gradients",
        "reduce_scatter": "on from stage 1: each rank receives only its shard",
        "reduce_bucket_size": "1e8 at most: a block has 201334784 parameters",
        "allgather_bucket_size": "DeepSpeed's default, 5e8",
        "stage3_prefetch_bucket_size": "the next block, a leaf module, while one computes: 201334784 parameters",
        "stage3_param_persistence_threshold": "10 x hidden_size = 10 x 4096: norms and biases stay whole",
        "stage3_max_live_parameters": "DeepSpeed's default, 1e9",
        "stage3_max_reuse_distance": "DeepSpeed's default, 1e9",
        "sub_group_size": "DeepSpeed's default, 1e9",
        "zero_hpz_partition_size": "off",
        "memory_efficient_linear": "DeepSpeed's default",
        "find_leaf_modules": "one fetch a block instead of one a module; the model itself says which class it is",
    }
    tiny = resolve_zero(ParallelismConfig(stage=3), TINY, TWO_NODES, "AdamW").reasons
    assert tiny["sub_group_size"].text == "DeepSpeed's default, 1e9, capped at the model's 992 parameters"


def test_what_is_given_stands() -> None:
    given: dict[str, Any] = {
        "overlap_comm": False,
        "contiguous_gradients": False,
        "reduce_scatter": False,
        "reduce_bucket_size": 1000.0,
        "allgather_bucket_size": 2000,
        "round_robin_gradients": True,
        "stage3_prefetch_bucket_size": 0,
        "stage3_param_persistence_threshold": 1,
        "stage3_max_live_parameters": 2,
        "stage3_max_reuse_distance": 3,
        "stage3_gather_16bit_weights_on_model_save": True,
        "sub_group_size": 5_000_000_000_000,
        "zero_hpz_partition_size": 4,
        "zero_quantized_weights": True,
        "zero_quantized_gradients": True,
        "memory_efficient_linear": False,
        "leaf_module_classes": ["MoE"],
    }
    resolved = resolve_zero(ParallelismConfig(stage=2, **given), SEVEN_B, TWO_NODES, "AdamW")
    decided = {"reduce_bucket_size": 1000, "leaf_module_classes": ("MoE",), "find_leaf_modules": False}
    assert resolved.value == ZeroPlan(stage=2, **{**given, **decided})
    assert isinstance(resolved.value.reduce_bucket_size, int)
    reasons = {name: asked(f"parallelism.{name}") for name in ("stage", *given)}
    assert resolved.reasons == {**reasons, "find_leaf_modules": asked("parallelism.leaf_module_classes")}


def test_without_leaf_modules_sizes_follow_the_hidden_size() -> None:
    resolved = resolve_zero(ParallelismConfig(stage=3, leaf_module_classes=[]), SEVEN_B, TWO_NODES, "AdamW")
    zero = resolved.value
    sizes = (zero.reduce_bucket_size, zero.stage3_prefetch_bucket_size, zero.stage3_param_persistence_threshold)
    assert sizes == (16_777_216, 15_099_494, 40_960)
    assert not zero.find_leaf_modules
    assert resolved.reasons["stage3_prefetch_bucket_size"].text == "0.9 x hidden_size^2 = 0.9 x 4096^2, rounded down"


def test_a_named_leaf_module_is_the_one() -> None:
    zero = resolve_zero(ParallelismConfig(stage=3, leaf_module_classes=["Block"]), SEVEN_B, TWO_NODES, "AdamW").value
    assert (zero.leaf_module_classes, zero.find_leaf_modules, zero.stage3_prefetch_bucket_size) == (("Block",), False, 201_334_784)


def test_no_leaf_modules_are_looked_for_where_they_do_harm() -> None:
    on_disk = resolve_zero(ParallelismConfig(stage=3), SEVEN_B, TWO_NODES, "AdamW", param_offload="nvme")
    cut = replace(TWO_NODES, tensor_parallel_degree=2)
    tensor = resolve_zero(ParallelismConfig(stage=3), SEVEN_B, cut, "AdamW")
    assert (on_disk.value.find_leaf_modules, tensor.value.find_leaf_modules) == (False, False)
    assert "swap buffers" in on_disk.reasons["find_leaf_modules"].text
    assert on_disk.value.stage3_prefetch_bucket_size == 15_099_494


def test_a_card_with_room_keeps_the_weights_gathered() -> None:
    """7B in 16 bit are 12.5 GiB: a tenth of 141 GiB is enough, of 80 GiB it is not."""
    whole = SEVEN_B.num_parameters
    roomy = resolve_zero(ParallelismConfig(stage=3), SEVEN_B, TWO_NODES, "AdamW", memory_bytes=141 * 2**30)
    assert (roomy.value.stage3_max_live_parameters, roomy.value.stage3_max_reuse_distance) == (whole, 3 * whole)
    assert not roomy.value.memory_efficient_linear
    assert roomy.reasons["stage3_max_live_parameters"].text == (
        "the whole model: weights stay gathered from the forward to the backward pass: at most a tenth of the GPU"
    )
    assert "stay gathered anyway" in roomy.reasons["memory_efficient_linear"].text
    for more in (
        {"memory_bytes": 80 * 2**30},
        {"memory_bytes": 141 * 2**30, "width": 4},
        {"memory_bytes": 141 * 2**30, "param_offload": "cpu"},
    ):
        tight = resolve_zero(ParallelismConfig(stage=3), SEVEN_B, TWO_NODES, "AdamW", **more).value  # type: ignore[arg-type]
        assert (tight.stage3_max_live_parameters, tight.memory_efficient_linear) == (10**9, True)
    given = ParallelismConfig(stage=3, stage3_max_live_parameters=10**9)
    assert resolve_zero(given, SEVEN_B, TWO_NODES, "AdamW", memory_bytes=141 * 2**30).value.memory_efficient_linear


def test_recomputed_activations_hold_no_weights() -> None:
    resolved = resolve_zero(ParallelismConfig(stage=3), SEVEN_B, TWO_NODES, "AdamW", recomputes=True)
    assert not resolved.value.memory_efficient_linear
    assert "activations are recomputed" in resolved.reasons["memory_efficient_linear"].text
    for asked_for in (ParallelismConfig(stage=3, leaf_module_classes=[]), ParallelismConfig(stage=3, memory_efficient_linear=True)):
        assert resolve_zero(asked_for, SEVEN_B, TWO_NODES, "AdamW", recomputes=True).value.memory_efficient_linear


@pytest.mark.parametrize(("asked_for", "size"), [(None, 1), (1, 1), (0, 8), (2, 2), (16, 16)])
def test_hpz(asked_for: int | None, size: int) -> None:
    config = ParallelismConfig(stage=3, zero_hpz_partition_size=asked_for)
    assert resolve_zero(config, None, TWO_NODES, "AdamW").value.zero_hpz_partition_size == size


@pytest.mark.parametrize(("stage", "goes_on_with"), [(4, 3), (-1, 0)])
def test_not_a_stage(stage: int, goes_on_with: int) -> None:
    resolved = resolve_zero(ParallelismConfig(stage=stage), None, TWO_NODES, "AdamW")
    (problem,) = resolved.problems
    assert problem.render() == f"error[ZC301] parallelism.stage={stage} is not a ZeRO stage\n  try: parallelism.stage=0, 1, 2 or 3"
    assert resolved.value.stage == goes_on_with
