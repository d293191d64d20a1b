from __future__ import annotations

import pytest

from tests.planner.conftest import Configure, MakePlan
from zerocfg.compiler import compile_run
from zerocfg.compose import compose
from zerocfg.memory import estimate
from zerocfg.planner.rank import micro_batches, search, why_first, with_micro_batch
from zerocfg.planner.space import NONE, Axes, changed

ON_V100 = ("model=llama2_13b", "hardware=v100x4", "batch.global_batch_size=64")


def test_13b_on_four_v100_is_offered_with_offload(configure: Configure) -> None:
    found = search(configure(*ON_V100), None, Axes(precision=True))
    assert found.ranked
    assert {(r.plan.zero.stage, r.plan.precision.dtype) for r in found.ranked} == {(3, "fp16")}
    assert "none" not in {r.plan.offload.optimizer for r in found.ranked}
    assert all("precision=fp16" in r.overrides for r in found.ranked)
    assert all(r.plan.batch.global_batch_size == 64 for r in found.ranked)


def test_without_offload_it_is_refused_with_the_numbers(configure: Configure) -> None:
    found = search(configure(*ON_V100, "precision=fp16", "offload=none"), None, Axes(offload=False))
    assert found.ranked == []
    (problem,) = found.too_large
    assert (problem.code, problem.path) == ("ZC501", "hardware.memory_bytes")
    assert "V100-SXM2-32GB has 32 GiB" in problem.message
    assert "optimizer states 24.2 GiB" in " ".join(problem.detail)
    assert problem.hint == "offload=optimizer"


def test_what_does_not_resolve_is_said_instead(configure: Configure) -> None:
    found = search(configure("model=gpt_1b3", "hardware=a100x4", "batch.global_batch_size=7"), None, Axes())
    assert (found.ranked, {p.code for p in found.problems}) == ([], {"ZC201"})


TWO = [("model=llama2_7b", "hardware=a100x4"), ("model=gpt_1b3", "hardware=h200x2", "batch.global_batch_size=64")]


@pytest.mark.parametrize("base", TWO)
def test_what_is_offered_compiles_and_keeps_to_the_target(configure: Configure, base: tuple[str, ...]) -> None:
    found = search(configure(*base), None, Axes())
    speeds = [r.tokens_per_s_per_gpu for r in found.ranked]
    assert len(speeds) > 5
    assert [f"{s:.3g}" for s in speeds[1:]] == [f"{s:.3g}" for s in sorted(speeds[1:], reverse=True)]
    assert speeds[0] >= 0.99 * max(speeds)
    for ranked in found.ranked[:4]:
        run = compile_run(compose([*base, *ranked.overrides]).container)
        assert run.plan == ranked.plan
        assert estimate(run.plan).within(run.plan.hardware.memory_target)


def test_the_micro_batch_alone_is_the_largest_that_fits(configure: Configure) -> None:
    axes = Axes(stage=False, offload=False, checkpointing=False, sizes=False)
    (best,) = search(configure("model=gpt_1b3", "hardware=h200x2", "parallelism=zero1"), None, axes).ranked
    size = best.plan.batch.micro_batch_size
    target = best.plan.hardware.memory_target
    assert estimate(best.plan).within(target)
    assert not estimate(with_micro_batch(best.plan, size + 1)).within(target)


def test_the_global_batch_stays(configure: Configure) -> None:
    axes = Axes(stage=False, offload=False, checkpointing=False, sizes=False)
    config = configure("model=gpt_1b3", "hardware=h200x2", "parallelism=zero1", "batch.global_batch_size=96")
    (best,) = search(config, None, axes).ranked
    assert tuple(micro_batches(config, best.plan, axes)) == (1, 2, 3, 4, 6, 8, 12, 16, 24, 48)
    batch = best.plan.batch
    assert batch.micro_batch_size * batch.gradient_accumulation_steps * 2 == batch.global_batch_size == 96
    assert batch.micro_batch_size in (16, 24)


def test_a_change_leaves_the_config_as_it_is(configure: Configure) -> None:
    config = configure("model=gpt_1b3", "hardware=h200x2")
    other = changed(config, {"parallelism.stage": 1, "offload.optimizer": NONE})
    assert (config.parallelism.stage, other.parallelism.stage) == (3, 1)
    assert other.model is config.model


def test_sizes_are_changed_for_a_gain_only(configure: Configure) -> None:
    kinds = [
        (r.plan.zero.stage, r.plan.offload.optimizer, r.plan.offload.param, r.plan.activation_checkpointing.enabled)
        for r in search(configure("model=gpt_1b3", "hardware=h200x2"), None, Axes()).ranked
    ]
    assert len(kinds) == len(set(kinds))


def test_each_choice_beside_its_neighbour(make_plan: MakePlan) -> None:
    """Every neighbour differs in what it says, and none of a kept choice's is much faster."""
    from zerocfg.planner.knobs import neighbours
    from zerocfg.planner.rates import rates_of

    plan = make_plan("model=gpt_1b3", "hardware=h200x2", "parallelism=zero3", "batch.micro_batch_size=4")
    found = neighbours(plan, rates_of(plan.hardware))
    assert [n.path.partition(".")[2] for n in sorted(found, key=lambda n: n.path)] == [
        "leaf_module_classes",
        "memory_efficient_linear",
        "overlap_comm",
        "reduce_bucket_size",
        "stage3_max_live_parameters",
        "stage3_param_persistence_threshold",
        "stage3_prefetch_bucket_size",
    ]
    assert all(n.value != n.other for n in found)
    assert [n.slower for n in found] == sorted((n.slower for n in found), reverse=True)
    assert found[-1].slower > -0.02
    by_path = {n.path: n for n in found}
    assert by_path["parallelism.leaf_module_classes"].slower > 0.2
    assert by_path["parallelism.stage3_max_live_parameters"].more_bytes < -(2**30)
    assert neighbours(make_plan("model=gpt_1b3", "hardware=h200x2", "parallelism=ddp"), rates_of(plan.hardware)) == []


def test_of_plans_as_fast_the_lowest_stage_is_first(configure: Configure) -> None:
    llama = ("model=llama3_8b", "model.num_hidden_layers=8", "model.hidden_size=2048", "model.intermediate_size=8192")
    more = ("model.sequence_length=2048", "hardware=h200x2", "batch.global_batch_size=32")
    ranked = search(configure(*llama, *more), None, Axes()).ranked
    best = max(ranked, key=lambda r: r.tokens_per_s_per_gpu)
    assert best.plan.zero.stage == 3
    assert ranked[0].plan.zero.stage == 1
    assert ranked[0].tokens_per_s_per_gpu >= 0.99 * best.tokens_per_s_per_gpu
    assert "lower stage" in why_first(ranked)
    assert why_first([best]) == ""


def test_a_small_gain_does_not_make_it_offload(configure: Configure) -> None:
    ranked = search(configure("model=llama3_8b", "hardware=h100x8", "batch.global_batch_size=64"), None, Axes()).ranked
    best = max(ranked, key=lambda r: r.tokens_per_s_per_gpu)
    assert best.plan.offload.optimizer == "cpu"
    assert ranked[0].plan.offload.optimizer == "none"
    assert ranked[0].plan.activation_checkpointing.enabled
    assert 0.9 < ranked[0].tokens_per_s_per_gpu / best.tokens_per_s_per_gpu < 0.99
    assert "offloads less" in why_first(ranked)


def test_a_huge_global_batch_makes_no_huge_search(configure: Configure) -> None:
    found = search(configure("model=gpt_1b3", "hardware=a100x4", "batch.global_batch_size=1e9"), None, Axes())
    assert found.ranked
    assert found.tried < 2000


def test_what_goes_to_nvme_is_stepped_in_small_groups(configure: Configure) -> None:
    """With DeepSpeed's 1e9 the swap buffers take more host memory than the states that they spare."""
    base = ("model=llama3_70b", "hardware=a100x4", "offload.nvme_path=/local_nvme")
    ranked = search(configure(*base), None, Axes()).ranked
    assert ranked
    assert all(f"parallelism.sub_group_size={r.plan.zero.sub_group_size}" in r.overrides for r in ranked)
    assert all(r.memory.host_bytes_per_node < 2**30 * 200 for r in ranked)
    asked = search(configure(*base, "parallelism.sub_group_size=2e8"), None, Axes()).ranked
    assert {r.plan.zero.sub_group_size for r in asked} == {200_000_000}


def test_blocks_over_the_limit_are_fetched_in_parts(configure: Configure) -> None:
    """An A10 has no room for two of Llama 3's blocks; with one as leaf module nothing would be fetched ahead."""
    best = search(configure("model=llama3_8b", "hardware=a10_x4"), None, Axes()).ranked[0]
    assert "parallelism.leaf_module_classes=[]" in best.overrides
    assert not best.plan.zero.find_leaf_modules
    assert best.cost.communication < 0.15 * best.cost.seconds
