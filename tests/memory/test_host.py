from __future__ import annotations

from collections.abc import Callable

import pytest

from zerocfg.memory import estimate
from zerocfg.plan import Plan

PlanOf = Callable[..., Plan]
BASE = ("model=llama2_7b", "hardware=a100x4")


def widths(plan: Plan) -> dict[str, float]:
    """Host bytes a parameter of the whole model, by part."""
    assert plan.model is not None
    return {name: size / plan.model.num_parameters for name, size in estimate(plan).host_parts.items()}


@pytest.mark.parametrize("stage", [1, 2])
def test_stages_1_and_2_keep_eighteen_bytes(plan_of: PlanOf, stage: int) -> None:
    plan = plan_of(*BASE, f"parallelism=zero{stage}", "offload=optimizer")
    found = widths(plan)
    buffer = found.pop("offload_buffers")
    assert found == pytest.approx({"fp32_master": 4, "optimizer_states": 8, "parameters": 2, "gradients": 4}, rel=1e-4)
    assert plan.model is not None
    assert buffer == pytest.approx(4 * 2 * plan.model.largest_parameter / plan.model.num_parameters)
    # all but the moments is page-locked
    pinned = estimate(plan).pinned_bytes_per_node
    assert pinned == estimate(plan).host_bytes_per_node - estimate(plan).host_parts["optimizer_states"]


def test_stage_2_adds_up_gradients_on_the_host(plan_of: PlanOf) -> None:
    once, twice = (
        widths(plan_of(*BASE, "parallelism=zero2", "offload=optimizer", f"batch.gradient_accumulation_steps={n}")) for n in (1, 2)
    )
    assert 2 <= twice["gradients"] - once["gradients"] < 2.2


def test_stage_3_keeps_eighteen_bytes_and_twenty_with_parameters(plan_of: PlanOf) -> None:
    optimizer = widths(plan_of(*BASE, "parallelism=zero3", "offload=optimizer"))
    assert optimizer == pytest.approx({"fp32_master": 4, "optimizer_states": 8, "gradients": 6}, rel=1e-4)
    everything = widths(plan_of(*BASE, "parallelism=zero3", "offload=all"))
    assert everything == pytest.approx(optimizer | {"parameters": 2}, rel=1e-4)


def test_bf16_states_halve(plan_of: PlanOf) -> None:
    found = widths(plan_of(*BASE, "parallelism=zero3", "offload=optimizer", "precision=bf16_lowmem"))
    assert found == pytest.approx({"fp32_master": 2, "optimizer_states": 4, "gradients": 4}, rel=1e-4)


def test_half_of_the_sub_groups_stay_on_the_gpu(plan_of: PlanOf) -> None:
    plan = plan_of(*BASE, "parallelism=zero3", "offload=optimizer", "offload.ratio=0.5", "parallelism.sub_group_size=1e8")
    found = widths(plan)
    assert 0.45 * 8 < found["optimizer_states"] < 0.55 * 8
    forward = next(m for m in estimate(plan).moments if m.phase == "forward")
    assert plan.model is not None
    on_gpu = 4 * (forward.parts["fp32_master"] + forward.parts["optimizer_states"]) / plan.model.num_parameters
    assert on_gpu + found["fp32_master"] + found["optimizer_states"] == pytest.approx(12, rel=1e-3)


def test_pageable_when_pinning_is_off(plan_of: PlanOf) -> None:
    pinned, pageable = (
        estimate(plan_of(*BASE, "parallelism=zero3", "offload=all", f"offload.pin_memory={on}")) for on in ("true", "false")
    )
    assert pinned.host_bytes_per_node == pageable.host_bytes_per_node
    assert (pinned.pinned_bytes_per_node > 0, pageable.pinned_bytes_per_node) == (True, 0)


def test_nvme_takes_states_and_leaves_buffers(plan_of: PlanOf) -> None:
    plan = plan_of(*BASE, "parallelism=zero3", "offload=all_nvme", "offload.nvme_path=/nvme", "offload.param_max_in_cpu=0")
    found = estimate(plan)
    assert plan.model is not None
    n = plan.model.num_parameters
    # 12 bytes of states, 4 of gradients, 2 of parameters
    assert found.nvme_bytes_per_node == pytest.approx(18 * n, rel=1e-3)
    buffers = 4 * (plan.offload.param_buffer_count * plan.offload.param_buffer_size * 2)
    assert found.host_parts["offload_buffers"] > buffers
    assert "optimizer_states" not in found.host_parts


def test_without_offload_the_host_holds_nothing(plan_of: PlanOf) -> None:
    found = estimate(plan_of(*BASE, "parallelism=zero3"))
    assert (found.host_bytes_per_node, found.pinned_bytes_per_node, found.nvme_bytes_per_node) == (0, 0, 0)
