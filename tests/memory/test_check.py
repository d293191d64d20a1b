from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from zerocfg.diagnostics import render_report
from zerocfg.memory import estimate
from zerocfg.memory.check import CODES, check_memory
from zerocfg.memory.variants import variants
from zerocfg.plan import Plan

PlanOf = Callable[..., Plan]
OVERRIDE = re.compile(r"[a-z_.]+=[^\s,]+")


def report(plan: Plan) -> str:
    return render_report(check_memory(plan))


def test_a_plan_that_fits_is_clean(plan_of: PlanOf) -> None:
    assert report(plan_of("model=gpt_1b3", "hardware=h200x2")) == ""


def test_what_does_not_fit_names_parts_and_changes(plan_of: PlanOf) -> None:
    plan = plan_of("model=llama2_7b", "hardware=a100x4", "batch.micro_batch_size=4")
    lines = report(plan).splitlines()
    assert re.fullmatch(
        r"error\[ZC501\] llama2_7b at stage 3, micro batch 4, needs 1\d\d GiB on each GPU, and A100-SXM4-80GB has 80 GiB", lines[0]
    )
    assert "the largest parts: activations 7" in lines[1]
    assert "of driver, CUDA context and NCCL" in lines[2]
    assert lines[3] == "  try: batch.micro_batch_size=2 batch.gradient_accumulation_steps=2, or activation_checkpointing=full"


@pytest.mark.parametrize(
    "overrides",
    [
        ("model=llama2_7b", "hardware=a100x4", "batch.micro_batch_size=8"),
        ("model=llama2_13b", "hardware=v100x4", "precision=fp16"),
        ("model=llama2_7b", "hardware=a100x8", "parallelism=ddp"),
        ("model=gpt_1b3", "hardware=a10_x4", "parallelism=zero1", "batch.micro_batch_size=8"),
        ("model=llama3_8b", "hardware=a100_40gb_x8", "parallelism=zero2", "batch.micro_batch_size=2"),
    ],
)
def test_the_changes_that_are_offered_do_fit(plan_of: PlanOf, overrides: tuple[str, ...]) -> None:
    (found,) = check_memory(plan_of(*overrides))
    assert found.code == "ZC501"
    offers = found.hint.split(", or ")
    assert 1 <= len(offers) <= 3
    for offer in offers:
        changes = OVERRIDE.findall(offer)
        changed = {o.split("=")[0] for o in changes}
        plan = plan_of(*(o for o in overrides if o.split("=")[0] not in changed), *changes)
        assert estimate(plan).fits, offer
        assert plan.batch.global_batch_size == plan_of(*overrides).batch.global_batch_size


def test_variants_are_what_the_compiler_makes_of_their_overrides(plan_of: PlanOf) -> None:
    base = ("model=gpt2_124m", "hardware=a100x8", "parallelism=zero1", "batch.micro_batch_size=4")
    found = list(variants(plan_of(*base)))
    assert len(found) > 20
    for variant in found:
        changed = {o.split("=")[0] for o in variant.overrides}
        compiled = plan_of(*(o for o in base if o.split("=")[0] not in changed), *variant.overrides)
        assert estimate(variant.plan) == estimate(compiled), variant.overrides


def test_when_no_change_is_enough_more_nodes_are(plan_of: PlanOf) -> None:
    (found,) = check_memory(plan_of("model=llama3_70b", "hardware=v100x4", "precision=fp16"))
    nodes = re.match(r"hardware\.num_nodes=(\d+) parallelism=zero3", found.hint)
    assert nodes is not None
    least = ("model=llama3_70b", "hardware=v100x4", "precision=fp16", "activation_checkpointing=full", "hardware.network=infiniband")
    assert estimate(plan_of(*least, f"hardware.num_nodes={nodes[1]}")).fits
    assert not estimate(plan_of(*least, f"hardware.num_nodes={int(nodes[1]) // 2}")).fits


def test_close_to_the_limit_is_a_warning(plan_of: PlanOf) -> None:
    # as detected: nothing is set aside for what a data sheet leaves out
    plan = replace(plan_of("model=gpt_1b3", "hardware=h200x2", "batch.micro_batch_size=2"), detected=True)
    needed = estimate(plan).needed_bytes
    tight = replace(plan, hardware=replace(plan.hardware, memory_bytes=int(needed / 0.97)))
    (found,) = check_memory(tight)
    assert found.as_dict()["severity"] == "warning"
    assert found.code == "ZC503"
    assert "batch.micro_batch_size=1" in found.hint
    assert list(check_memory(replace(plan, hardware=replace(plan.hardware, memory_bytes=int(needed / 0.9))))) == []


def test_host_memory(plan_of: PlanOf) -> None:
    base = ("model=llama2_7b", "hardware=a100x4", "offload=optimizer", "hardware.host_memory_bytes=107374182400")
    (found,) = check_memory(plan_of(*base))
    assert found.render().splitlines() == [
        "error[ZC502] offloading needs 113 GiB of host memory on each node, and there are 100 GiB",
        "  4 ranks a node; the largest parts: optimizer states 50.2 GiB, gradients 37.7 GiB, master weights 25.1 GiB",
        "  37.7 GiB of it page-locked",
        "  try: offload=optimizer_nvme offload.nvme_path=PATH or offload=none",
    ]
    assert list(check_memory(plan_of(*base[:-1], "hardware.host_memory_bytes=137438953472"))) == []


def test_nothing_is_said_of_a_model_that_is_not_described(plan_of: PlanOf) -> None:
    assert list(check_memory(plan_of("model=none", "hardware=h200x2"))) == []


def test_every_code_has_a_line() -> None:
    assert sorted(CODES) == ["ZC501", "ZC502", "ZC503", "ZC504"]


def test_where_no_number_of_gpus_helps_a_sequence_is_shared(plan_of: PlanOf) -> None:
    plan = plan_of("model=llama2_7b", "hardware=a100x4", "model.sequence_length=131072", "offload=all", "activation_checkpointing=full")
    last = report(plan).splitlines()[-3]
    assert last.startswith("  try: parallelism.sequence_parallel_degree=2 parallelism=zero3")


def test_a_micro_batch_far_too_large_is_answered(plan_of: PlanOf) -> None:
    text = report(plan_of("model=gpt_1b3", "hardware=a100x4", "batch.micro_batch_size=1000000000"))
    assert re.search(r"try: batch.micro_batch_size=\d{1,2} batch", text)


def test_swap_buffers_that_do_not_fit_are_made_smaller(plan_of: PlanOf) -> None:
    base = ("model=llama2_7b", "hardware=a100x8", "parallelism=zero3", "offload=all_nvme", "offload.nvme_path=/local_nvme")
    little = (*base, f"hardware.host_memory_bytes={2**37}")
    assert "try: parallelism.sub_group_size=100000000 or" in report(plan_of(*little))
    assert "ZC502" not in report(plan_of(*little, "parallelism.sub_group_size=100000000"))
